// libFuzzer: whatever the text is, the reader of seccomp additions returns; and what it takes becomes a program that
// ends for every call, and allows or denies and does nothing else.
//
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -iquote src -DAGENTRUN_VERSION='"fuzz"'
//     -DAGENTRUN_SYSCONFDIR='"/etc/agentrun"' tests/fuzz/fuzz_seccomp_addition.cc
//     src/lifecycle/{seccomp_additions,owner}.cc src/sandbox/seccomp_rules.cc src/sys/file.cc
//     src/oci/json_{document,reader}.cc src/base/{error,text}.cc -lseccomp -lboost_json -lboost_container
//     -o fuzz-seccomp-addition
//   ./fuzz-seccomp-addition -max_len=4096 CORPUS
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "../unit/sandbox/bpf.h"
#include "lifecycle/seccomp_additions.h"

using namespace agentrun;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto addition = lifecycle::parse_seccomp_addition(json, "fuzz.json");
  if (!addition) {
    if (addition.error().message().empty()) std::abort();
    return 0;
  }
  const auto programs = lifecycle::compile_additions({*addition});
  if (!programs) return 0;
  for (long number = 0; number < 480; ++number) {
    for (const std::uint64_t argument :
         {std::uint64_t{0}, std::uint64_t{1} << 32, ~std::uint64_t{0}, std::uint64_t{38}}) {
      const std::uint32_t answer = sandbox::test::ask(programs->at(0).instructions, number,
                                                      {argument, argument, argument, argument, argument, argument});
      const std::uint32_t action = answer & SECCOMP_RET_ACTION_FULL;
      if (answer != SECCOMP_RET_ALLOW && action != SECCOMP_RET_ERRNO) std::abort();
      if (action == SECCOMP_RET_ERRNO && (answer & SECCOMP_RET_DATA) == 0) std::abort();  // a success that is none
    }
  }
  return 0;
}
