#include <unistd.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/text.h"
#include "cli/commands.h"
#include "lifecycle/control.h"
#include "oci/parse.h"
#include "sys/file.h"

namespace agentrun::cli {
namespace {

using Setter = std::function<Result<void>(std::string_view)>;

Result<std::int64_t> parse_integer(std::string_view value) {
  const auto number = text::parse_signed(value);
  if (!number) return refusal("", "", "not a number: " + std::string(value));
  return *number;
}

// -1 is "no limit" in every resource that is signed.
Result<std::int64_t> parse_bytes(std::string_view value) {
  if (value == "-1") return -1;
  return text::parse_size(value);
}

template <typename Number>
Setter integer_into(std::optional<Number>& target) {
  return [&target](std::string_view value) -> Result<void> {
    const std::int64_t number = TRY(parse_integer(value));
    if (!std::in_range<Number>(number)) return refusal("", "", "out of range: " + std::string(value));
    target = static_cast<Number>(number);
    return ok();
  };
}

Setter bytes_into(std::optional<std::int64_t>& target) {
  return [&target](std::string_view value) -> Result<void> {
    target = TRY(parse_bytes(value));
    return ok();
  };
}

Result<oci::Resources> read_resources(const std::string& file) {
  const std::string json = file == "-" ? TRY(sys::read_fd(STDIN_FILENO, "standard input", oci::kConfigSizeLimit))
                                       : TRY(sys::read_file(file, oci::kConfigSizeLimit));
  return oci::parse_resources(json, file == "-" ? "standard input" : file);
}

void add_options(OptionParser& parser, std::string& file, oci::MemoryResources& memory, oci::CpuResources& cpu,
                 oci::BlockIoResources& block_io, oci::Resources& resources) {
  parser.text("resources,r", "FILE", file, "the limits as JSON, as in linux.resources; - is standard input")
      .value("memory", "BYTES", bytes_into(memory.limit), "memory limit; 512M and 2G are understood, -1 is none")
      .value("memory-reservation", "BYTES", bytes_into(memory.reservation), "memory reservation")
      .value("memory-swap", "BYTES", bytes_into(memory.swap), "memory and swap together")
      .value("kernel-memory", "BYTES", bytes_into(memory.kernel), "kernel memory (cgroup v1)")
      .value("kernel-memory-tcp", "BYTES", bytes_into(memory.kernel_tcp), "kernel memory of TCP (cgroup v1)")
      .value("pids-limit", "N", integer_into(resources.pids_limit), "most processes and threads; -1 is no limit")
      .value("cpu-share", "N", integer_into(cpu.shares), "CPU shares, a relative weight")
      .value("cpu-quota", "USEC", integer_into(cpu.quota), "CPU time in a period; -1 is no limit")
      .value("cpu-period", "USEC", integer_into(cpu.period), "length of the period")
      .value("cpu-burst", "USEC", integer_into(cpu.burst), "CPU time that may be saved up")
      .value("cpu-idle", "0|1", integer_into(cpu.idle), "run only when nothing else wants to")
      .value("cpu-rt-runtime", "USEC", integer_into(cpu.realtime_runtime), "real-time CPU time in a period")
      .value("cpu-rt-period", "USEC", integer_into(cpu.realtime_period), "length of the real-time period")
      .text("cpuset-cpus", "LIST", cpu.cpus, "CPUs: 0-3,7")
      .text("cpuset-mems", "LIST", cpu.mems, "memory nodes: 0-1")
      .value("blkio-weight", "N", integer_into(block_io.weight), "block I/O weight, 10 to 1000");
}

bool any(const oci::MemoryResources& memory) {
  return memory.limit || memory.reservation || memory.swap || memory.kernel || memory.kernel_tcp;
}

bool any(const oci::CpuResources& cpu) {
  return cpu.shares || cpu.quota || cpu.period || cpu.burst || cpu.idle || cpu.realtime_runtime ||
         cpu.realtime_period || !cpu.cpus.empty() || !cpu.mems.empty();
}

}  // namespace

Result<int> update_command(const Invocation& call) {
  std::string file;
  oci::Resources resources;
  oci::MemoryResources memory;
  oci::CpuResources cpu;
  oci::BlockIoResources block_io;
  OptionParser parser("update", "ID", "Change limits of a container. None can be raised above the policy's.");
  add_options(parser, file, memory, cpu, block_io, resources);
  for (const char* name : {"l3-cache-schema", "mem-bw-schema"}) {
    parser.value(
        name, "SCHEMA", [](std::string_view) -> Result<void> { return refusal("", "", "resctrl is not supported"); },
        "");  // runc's
  }
  const auto parsed = TRY(parser.operands(1, 1).parse(call.arguments));
  if (parsed.help) return print(parser.help());

  const bool by_options = any(memory) || any(cpu) || block_io.weight || resources.pids_limit;
  if (file.empty() == !by_options) {
    return refusal("update", parsed.operands[0], "needs limits: either --resources FILE or options, not both");
  }
  if (!file.empty()) {
    resources = TRY(read_resources(file));
  } else {
    if (any(memory)) resources.memory = memory;
    if (any(cpu)) resources.cpu = cpu;
    if (block_io.weight) resources.block_io = block_io;
  }
  TRY(lifecycle::update(call.global, parsed.operands[0], resources));
  return 0;
}

}  // namespace agentrun::cli
