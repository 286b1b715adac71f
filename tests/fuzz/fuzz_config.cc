// libFuzzer: whatever the text is, the parser returns; and what it takes, it takes again from its own print.
//
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Isrc tests/fuzz/fuzz_config.cc src/oci/*.cc
//     src/base/{error,text}.cc -DAGENTRUN_VERSION='"fuzz"' -lboost_json -lboost_container -o fuzz-config
//   ./fuzz-config -max_len=65536 CORPUS
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "oci/parse.h"
#include "oci/print.h"

using namespace agentrun::oci;

namespace {

template <typename Parse, typename Print>
void check(std::string_view json, Parse parse, Print print) {
  const auto value = parse(json, "fuzz.json");
  if (value.has_error()) {
    if (value.error().message().empty()) std::abort();
    return;
  }
  const std::string text = print(*value, Layout::compact);
  const auto again = parse(text, "print.json");
  if (again.has_error() || print(*again, Layout::compact) != text) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  check(json, parse_config, print_config);
  check(json, parse_process, print_process);
  check(json, parse_resources, print_resources);
  return 0;
}
