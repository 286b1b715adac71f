// The lines that agentrun and its helper agentrun-systemd exchange. The helper is a program of its own because
// libsystemd cannot be linked statically; it knows D-Bus and nothing else.
//
//   start UNIT            or: set UNIT, stop UNIT
//   property NAME TYPE =VALUE =VALUE
//   go
// and the answer
//   ok =CONTROLGROUP      or: error =TEXT
//
// Values are words: what is not printable ASCII, and '%', is written %XX. TYPE is a D-Bus signature: s b i u x t d, as
// au ay, and a(ss) with its pairs one after the other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace agentrun::sandbox {

struct UnitProperty {
  std::string name;
  std::string type;
  std::vector<std::string> values;  // numbers in decimal, booleans as "true" and "false"
  bool operator==(const UnitProperty&) const = default;
};

struct UnitRequest {
  std::string verb;  // "start", "set", "stop"
  std::string unit;
  std::vector<UnitProperty> properties;
  bool operator==(const UnitRequest&) const = default;
};

struct UnitReply {
  bool ok = false;
  std::string text;  // the control group of a started scope, or what went wrong
};

std::string print_request(const UnitRequest& request);
std::string print_reply(const UnitReply& reply);

// One line of a request, without its newline, into `request`; true when it was "go". Errors: not of this protocol.
Result<bool> parse_request_line(std::string_view line, UnitRequest& request);
Result<UnitReply> parse_reply(std::string_view line);

}  // namespace agentrun::sandbox
