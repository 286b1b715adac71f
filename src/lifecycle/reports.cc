#include "lifecycle/reports.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "oci/parse.h"
#include "sys/file.h"

namespace agentrun::lifecycle {
namespace {

constexpr const char* kDirectory = ".reports";
constexpr int kPruneEvery = 32;  // deletes, on average: a listing of a thousand names is not for each of them

std::string path_of(const std::string& id) { return std::string(kDirectory) + "/" + id + ".json"; }

}  // namespace

Result<void> keep_report(const Container& container) {
  const std::string path = path_of(container.id());
  for (const bool retry : {false, true}) {
    if (renameat(container.directory(), "report.json", container.root(), path.c_str()) == 0) break;
    if (errno != ENOENT) return errno_error("keep report of", container.id());
    if (retry || faccessat(container.directory(), "report.json", F_OK, 0) != 0) return ok();
    const auto made = sys::make_directory_at(container.root(), kDirectory, 0700);
    if (!made && made.error().code != EEXIST) return made.error();
  }
  // The age is that of the delete, not of the create.
  utimensat(container.root(), path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  if (clock::monotonic_us() % kPruneEvery == 0) return prune_reports(container.root(), kReportsKept);
  return ok();
}

Result<policy::Report> kept_report(const Store& store, const std::string& id) {
  TRY(check_id(id));
  const auto text = sys::read_file_at(store.directory(), path_of(id), 4 * oci::kConfigSizeLimit);
  if (!text) {
    if (text.error().code != ENOENT) return text.error();
    return refusal("container " + id + " does not exist", "", "and there is no report of it");
  }
  return policy::parse_report(*text, id + ".json");
}

Result<void> prune_reports(int root, std::size_t keep) {
  const UniqueFd directory = TRY(sys::open_at(root, kDirectory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  std::vector<std::pair<std::int64_t, std::string>> reports;
  for (std::string& name : TRY(sys::list_directory(directory.get(), "."))) {
    struct stat status {};
    if (fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    reports.emplace_back(std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec, std::move(name));
  }
  if (reports.size() <= keep) return ok();
  std::sort(reports.begin(), reports.end());
  reports.resize(reports.size() - keep);
  for (const auto& [age, name] : reports) unlinkat(directory.get(), name.c_str(), 0);
  return ok();
}

}  // namespace agentrun::lifecycle
