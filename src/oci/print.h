// Types back to JSON, compact or indented, without a final newline. parse(print(x)) is x: a property that the tests
// check.
#pragma once

#include <string>

#include "oci/config.h"
#include "oci/json_writer.h"

namespace agentrun::oci {

std::string print_config(const Config& config, Layout layout);
std::string print_process(const Process& process, Layout layout);
std::string print_resources(const Resources& resources, Layout layout);

}  // namespace agentrun::oci
