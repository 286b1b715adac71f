#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "cli/commands.h"
#include "oci/features.h"
#include "sys/file.h"

namespace agentrun::cli {

Result<int> spec_command(const Invocation& call) {
  std::string bundle = ".", name = "config.json";
  bool rootless = false;
  OptionParser parser("spec", "", "Write a config.json to begin with. One that is there is never overwritten.");
  parser.text("bundle,b", "DIR", bundle, "directory to write to (default: the working directory)")
      .text("file,f", "FILE", name, "name of the file (default: config.json)")
      .flag("rootless", rootless, "for an ordinary user: with a user namespace");
  const auto parsed = TRY(parser.operands(0, 0).parse(call.arguments));
  if (parsed.help) return print(parser.help());

  const std::string text = oci::spec_template(rootless, geteuid(), getegid()) + '\n';
  const UniqueFd directory = TRY(sys::open(bundle, O_DIRECTORY | O_RDONLY));
  const auto file = sys::open_at(directory.get(), name, O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (file.has_error()) {
    if (file.error().code == EEXIST) return refusal("spec", name, "exists; remove it first");
    return file.error();
  }
  TRY(sys::write_all(file->get(), text, name));
  return 0;
}

}  // namespace agentrun::cli
