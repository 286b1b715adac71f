// A config.json with something changed, and the message that parse gives.
#pragma once

#include <string>
#include <string_view>

#include "oci/parse.h"

namespace agentrun::oci {

// The smallest config.json that `start` would take, with members put into process, linux and the top object; each
// either empty or beginning with a comma.
inline std::string config_text(std::string_view process = "", std::string_view linux = "", std::string_view top = "") {
  std::string text =
      R"({"ociVersion":"1.0.2","root":{"path":"rootfs"},"process":{"user":{"uid":0,"gid":0},"args":["sh"],)";
  text += R"("cwd":"/")";
  text += process;
  text += R"(},"linux":{"cgroupsPath":"")";
  text += linux;
  text += "}";
  text += top;
  text += "}";
  return text;
}

inline std::string message_of(std::string_view json) {
  const auto config = parse_config(json, "config.json");
  return config.has_value() ? "no error" : config.error().message();
}
inline std::string process_message(std::string_view members) { return message_of(config_text(members)); }
inline std::string linux_message(std::string_view members) { return message_of(config_text("", members)); }

inline std::string at(std::string_view pointer, std::string_view reason) {
  return "parse config.json " + std::string(pointer) + ": " + std::string(reason);
}

}  // namespace agentrun::oci
