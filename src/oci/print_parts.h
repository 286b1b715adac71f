// What the files of print share.
#pragma once

#include "oci/config.h"
#include "oci/json_writer.h"

namespace agentrun::oci {

void to_json(JsonWriter& out, const IdMapping& mapping);
void to_json(JsonWriter& out, const Linux& linux);
void to_json(JsonWriter& out, const Resources& resources);

}  // namespace agentrun::oci
