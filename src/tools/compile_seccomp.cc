// Compiles a seccomp program of policies/seccomp/*.json into the rows of a C array of sock_filter, when agentrun is
// built; for each architecture that agentrun knows, whatever the machine that builds.
//
// The language:
//   "default"  what every other system call answers with
//   "allow"    names that are allowed whatever their arguments
//   "rules"    name -> list, the first entry whose conditions all hold decides; the last entry has none
//              {"arg": N, "is": [values]}            one of them
//              {"arg": N, "mask": M, "is": [values]}  one of them, of the bits of M
//              {"arg": N, "any_bit": M}               at least one bit of M is set
//   "why"      in an entry: for the reader
//   actions    "allow", "success" (does nothing and returns 0) or the name of an errno
//
// How arguments are compared: src/sandbox/seccomp_rules.h.
#include <linux/filter.h>
#include <linux/seccomp.h>

#include <boost/json.hpp>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sandbox/seccomp_rules.h"

namespace {

namespace json = boost::json;
using namespace agentrun;

[[noreturn]] void fail(const std::string& reason) { throw std::runtime_error(reason); }

template <typename T>
T value_or_fail(Result<T> result) {
  if (!result) fail(result.error().message());
  return *std::move(result);
}

std::uint32_t action_of(const json::value& value) {
  const std::string name(value.as_string());
  if (name == "allow") return SECCOMP_RET_ALLOW;
  if (name == "success") return SECCOMP_RET_ERRNO | 0;
  const auto action = sandbox::errno_action(name);
  if (!action) fail("unknown action " + name);
  return *action;
}

std::uint32_t value_of(const json::value& value) {
  const auto number = sandbox::parse_call_value(std::string_view(value.as_string()));
  if (!number) fail("not a number of 32 bits: " + std::string(value.as_string()));
  return *number;
}

sandbox::ArgumentTest test_of(const json::object& condition) {
  sandbox::ArgumentTest test;
  test.argument = static_cast<unsigned>(condition.at("arg").as_int64());
  std::size_t keys = 1;
  if (const auto* mask = condition.if_contains("any_bit")) {
    test.any_bit = true;
    test.mask = value_of(*mask);
    keys += 1;
  } else {
    if (const auto* bits = condition.if_contains("mask")) {
      test.mask = value_of(*bits);
      keys += 1;
    }
    for (const json::value& value : condition.at("is").as_array()) test.values.push_back(value_of(value));
    keys += 1;
  }
  if (keys != condition.size()) fail("an unknown key in a condition");
  return test;
}

std::vector<sandbox::CallRule> rules_of(const json::array& list) {
  std::vector<sandbox::CallRule> rules;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const json::object& entry = list[i].as_object();
    const auto* conditions = entry.if_contains("if");
    const std::size_t known = 1 + entry.contains("why") + entry.contains("if");
    if (entry.size() != known) fail("an unknown key in a rule");
    if ((conditions == nullptr) != (i + 1 == list.size())) fail("the last rule, and only it, has no condition");
    sandbox::CallRule rule;
    rule.action = action_of(entry.at("then"));
    if (conditions != nullptr) {
      for (const json::value& condition : conditions->as_array()) rule.tests.push_back(test_of(condition.as_object()));
      if (rule.tests.empty()) fail("a rule without conditions that is not the last");
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

sandbox::CallRules program_of(const json::object& file, sandbox::CallAbi abi) {
  if (file.at("format").as_int64() != 1) fail("unknown format");
  if (file.size() != 4) fail("an unknown key in the file");
  sandbox::CallRules program;
  program.otherwise = action_of(file.at("default"));
  const auto add = [&](const std::string& name, std::vector<sandbox::CallRule> rules) {
    const auto number = value_or_fail(sandbox::call_number(name, abi));
    if (!number) return;
    if (!program.calls.emplace(*number, std::move(rules)).second) fail(name + " is there twice");
  };
  for (const json::value& name : file.at("allow").as_array()) {
    add(std::string(name.as_string()), {sandbox::CallRule{{}, SECCOMP_RET_ALLOW}});
  }
  for (const auto& [name, rules] : file.at("rules").as_object()) add(std::string(name), rules_of(rules.as_array()));
  return program;
}

sandbox::CallAbi abi_of(const std::string& name) {
  if (name == "x86_64") return sandbox::CallAbi::x86_64;
  if (name == "aarch64") return sandbox::CallAbi::aarch64;
  fail("unknown architecture " + name);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 4) fail("usage: compile_seccomp ARCHITECTURE PROGRAM.json OUTPUT");
    std::ifstream input(argv[2]);
    std::stringstream text;
    text << input.rdbuf();
    if (!input) fail("cannot be read");
    const sandbox::CallAbi abi = abi_of(argv[1]);
    const auto program = value_or_fail(sandbox::assemble(program_of(json::parse(text.str()).as_object(), abi), abi));
    std::ofstream output(argv[3], std::ios::trunc);
    for (const sock_filter& row : program) {
      output << '{' << row.code << ", " << unsigned{row.jt} << ", " << unsigned{row.jf} << ", " << row.k << "u},\n";
    }
    output.flush();
    if (!output) fail("the output cannot be written");
    return 0;
  } catch (const std::exception& problem) {
    std::cerr << "compile_seccomp: " << (argc > 2 ? argv[2] : "") << ": " << problem.what() << '\n';
    return 1;
  }
}
