// libFuzzer: whatever the text is, the parsers of policies and of agentrun.json return; a policy that is taken is taken
// again from its own print; and under it the laws of harden() hold for a generated config: nothing is loosened, and
// twice is once.
//
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -iquote src -iquote tests/unit/policy -iquote
//   build/src
//     tests/fuzz/fuzz_policy.cc tests/unit/policy/{generator,judge}.cc build/src/policy/builtin_data.cc src/policy/*.cc
//     src/oci/*.cc src/base/{error,text}.cc -DAGENTRUN_VERSION='"fuzz"' -lboost_json -lboost_container -o fuzz-policy
//   ./fuzz-policy -max_len=65536 CORPUS policies
//
// Without libFuzzer, -DSTANDALONE gives a program that runs N generated policies, and each cut, doubled and with bytes
// changed: ./fuzz-policy N
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

#include "generator.h"
#include "judge.h"
#include "oci/print.h"
#include "policy/harden.h"
#include "policy/policy.h"
#include "policy/settings.h"

using namespace agentrun;

namespace {

[[noreturn]] void broken(const char* law, std::string_view json, const std::string& detail) {
  std::fprintf(stderr, "%s\n%.*s\n%s\n", law, static_cast<int>(json.size()), json.data(), detail.c_str());
  std::abort();
}

void check_error(const Error& error, std::string_view json) {
  const std::string message = error.message();
  if (message.empty() || message.find('\n') != std::string::npos) broken("an error is one line", json, message);
}

// A file that extends itself, by way of another.
Result<policy::PolicyText> circle(const std::string& name) {
  return policy::PolicyText{"{\"extends\": \"" + name + "x\"}", name};
}

std::uint64_t seed_of(std::string_view text) {
  std::uint64_t hash = 1469598103934665603u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

void check_laws(const policy::Policy& policy, std::string_view json) {
  const policy::testing::Sample sample = policy::testing::generate(seed_of(json));
  const auto once = policy::harden(sample.config, policy, sample.facts);
  if (once.has_error()) return check_error(once.error(), json);
  std::vector<std::string> names;
  for (const auto& [name, value] : policy.env.set) names.push_back(name);
  for (const auto& what : policy::testing::loosened(sample.config, once->config, names)) {
    broken("never loosens", json, what);
  }
  const auto twice = policy::harden(once->config, policy, sample.facts);
  if (twice.has_error()) broken("twice is once", json, twice.error().message());
  const auto text = [](const auto& effective) { return oci::print_config(effective->config, oci::Layout::compact); };
  if (text(once) != text(twice) || !twice->report.changes.empty()) {
    broken("twice is once", json, policy::explain_report(twice->report));
  }
}

void check_policy(std::string_view json) {
  const auto policy = policy::parse_policy(json, "fuzz.json", circle);
  if (policy.has_error()) return check_error(policy.error(), json);
  const std::string text = policy::print_policy(*policy);
  const auto again = policy::parse_policy(text, "fuzz.json");
  if (again.has_error()) broken("its print is a policy", json, again.error().message());
  if (policy::print_policy(*again) != text) broken("its print is the policy", json, text);
  check_laws(*policy, json);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  check_policy(json);
  const auto settings = policy::parse_settings(json, "fuzz.json");
  if (settings.has_error()) check_error(settings.error(), json);
  return 0;
}

#ifdef STANDALONE
namespace {

void run(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned long count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
  std::mt19937_64 random(1);
  for (unsigned long seed = 0; seed < count; ++seed) {
    const std::string text = policy::testing::generate_policy(seed);
    run(text);
    run(text.substr(0, random() % (text.size() + 1)));
    std::string changed = text;
    for (int i = 0; i < 4; ++i) changed[random() % changed.size()] = static_cast<char>(random());
    run(changed);
    const std::size_t at = random() % text.size();
    run(text.substr(0, at) + text.substr(random() % (at + 1)));
  }
  std::printf("%lu policies\n", count);
  return 0;
}
#endif
