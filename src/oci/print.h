// Types back to JSON, compact or indented. parse(print(x)) is x: a property that the tests check.
#pragma once

#include <string>

#include "oci/config.h"

namespace agentrun::oci {

enum class Layout { compact, indented };

std::string print_config(const Config& config, Layout layout);
std::string print_process(const Process& process, Layout layout);
std::string print_resources(const Resources& resources, Layout layout);

}  // namespace agentrun::oci
