#include "sandbox/cgroup_layout.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

constexpr const char* kDefaultMount = "/sys/fs/cgroup";

// One line of /proc/self/cgroup: "4:memory:/a/b", "0::/a/b".
struct OwnCgroup {
  std::string_view hierarchy;  // "memory", "name=systemd"; empty: v2
  std::string_view path;
};

std::vector<OwnCgroup> parse_self_cgroup(std::string_view self_cgroup) {
  std::vector<OwnCgroup> result;
  for (const std::string_view line : text::split(self_cgroup, '\n')) {
    const std::size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    result.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return result;
}

// mountinfo writes space, tab, newline and backslash as \ooo.
std::string unescape(std::string_view field) {
  std::string result;
  for (std::size_t i = 0; i < field.size(); ++i) {
    const auto digit = [&](std::size_t at) { return at < field.size() && field[at] >= '0' && field[at] <= '7'; };
    if (field[i] == '\\' && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
      result += static_cast<char>((field[i + 1] - '0') * 64 + (field[i + 2] - '0') * 8 + (field[i + 3] - '0'));
      i += 3;
    } else {
      result += field[i];
    }
  }
  return result;
}

struct CgroupMount {
  Hierarchy place;
  std::string root;  // the part of the hierarchy that is mounted
  bool v2 = false;
  std::vector<std::string_view> options;  // of the super block
};

// "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:1 - tmpfs tmpfs rw,mode=755"
std::optional<CgroupMount> parse_mount(std::string_view line) {
  const std::vector<std::string_view> fields = text::split(line, ' ');
  const auto dash = std::find(fields.begin(), fields.end(), "-");
  if (fields.size() < 7 || fields.end() - dash < 4) return std::nullopt;
  CgroupMount mount;
  if (dash[1] == "cgroup2") {
    mount.v2 = true;
  } else if (dash[1] != "cgroup") {
    return std::nullopt;
  }
  const std::vector<std::string_view> device = text::split(fields[2], ':');
  if (device.size() != 2) return std::nullopt;
  const auto major = text::parse_unsigned(device[0]);
  const auto minor = text::parse_unsigned(device[1]);
  if (!major || !minor) return std::nullopt;
  mount.place.device_major = static_cast<unsigned>(*major);
  mount.place.device_minor = static_cast<unsigned>(*minor);
  mount.place.mount = unescape(fields[4]);
  mount.root = unescape(fields[3]);
  mount.options = text::split(dash[3], ',');
  return mount;
}

bool has_all(const std::vector<std::string_view>& options, const std::vector<std::string_view>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](std::string_view name) {
    return std::find(options.begin(), options.end(), name) != options.end();
  });
}

// A mount of a part of the hierarchy shows our own cgroup only where that lies in the part.
std::string relative_own(std::string_view path, const std::string& root) {
  if (!text::path_within(path, root)) return {};
  if (root == "/") return std::string(path);
  const std::string_view rest = path.substr(root.size());
  return rest.empty() ? "/" : std::string(rest);
}

bool can_be_reached(const Hierarchy& place) {
  struct stat status {};
  if (stat(place.mount.c_str(), &status) != 0) return false;
  return major(status.st_dev) == place.device_major && minor(status.st_dev) == place.device_minor;
}

bool is_mounted_v2(const char* path) {
  struct statfs status {};
  return statfs(path, &status) == 0 && status.f_type == CGROUP2_SUPER_MAGIC;
}

}  // namespace

bool CgroupLayout::unified() const {
  return v2 && std::all_of(v1.begin(), v1.end(), [](const Hierarchy& place) { return place.controllers.empty(); });
}

const Hierarchy* CgroupLayout::v1_with(std::string_view controller) const {
  for (const Hierarchy& place : v1) {
    if (std::find(place.controllers.begin(), place.controllers.end(), controller) != place.controllers.end()) {
      return &place;
    }
  }
  return nullptr;
}

CgroupLayout parse_layout(std::string_view mountinfo, std::string_view self_cgroup, bool (*visible)(const Hierarchy&)) {
  const std::vector<OwnCgroup> own = parse_self_cgroup(self_cgroup);
  CgroupLayout layout;
  for (const std::string_view line : text::split(mountinfo, '\n')) {
    auto mount = parse_mount(line);
    if (!mount || (visible != nullptr && !visible(mount->place))) continue;
    for (const OwnCgroup& mine : own) {
      if (mine.hierarchy.empty() != mount->v2) continue;
      Hierarchy place = mount->place;
      place.name = std::string(mine.hierarchy);
      place.own = relative_own(mine.path, mount->root);
      if (mount->v2) {
        if (!layout.v2) layout.v2 = std::move(place);
        break;
      }
      const std::vector<std::string_view> parts = text::split(mine.hierarchy, ',');
      if (!has_all(mount->options, parts)) continue;
      for (const std::string_view part : parts) {
        if (!part.starts_with("name=")) place.controllers.emplace_back(part);
      }
      const bool known = std::any_of(layout.v1.begin(), layout.v1.end(),
                                     [&](const Hierarchy& other) { return other.name == place.name; });
      if (!known) layout.v1.push_back(std::move(place));
      break;
    }
  }
  return layout;
}

Result<CgroupLayout> find_layout() {
  const std::string self_cgroup = TRY(sys::read_file("/proc/self/cgroup"));
  // The common host, without reading all of its mounts.
  if (is_mounted_v2(kDefaultMount)) {
    CgroupLayout layout;
    layout.v2 = Hierarchy{};
    layout.v2->mount = kDefaultMount;
    for (const OwnCgroup& mine : parse_self_cgroup(self_cgroup)) {
      if (mine.hierarchy.empty()) layout.v2->own = std::string(mine.path);
    }
    return layout;
  }
  const std::string mountinfo = TRY(sys::read_file("/proc/self/mountinfo", 64u << 20));
  CgroupLayout layout = parse_layout(mountinfo, self_cgroup, can_be_reached);
  if (!layout.v2 && layout.v1.empty()) {
    return refusal("find the cgroup hierarchies in", "/proc/self/mountinfo", "none is mounted");
  }
  return layout;
}

Result<std::string> cgroupfs_path(const std::string& cgroups_path, const std::string& id) {
  const std::string path = cgroups_path.empty() ? "/agentrun/" + id : cgroups_path;
  std::string clean;
  for (const std::string_view part : text::split(path, '/')) {
    if (part.empty()) continue;
    if (part == "." || part == "..") {
      return refusal("use linux.cgroupsPath", path, "it has a component \"" + std::string(part) + "\"");
    }
    if (part.size() > 255) return refusal("use linux.cgroupsPath", path, "a component has more than 255 bytes");
    clean += '/';
    clean += part;
  }
  if (clean.empty()) return refusal("use linux.cgroupsPath", path, "it is the root of the hierarchy");
  return clean;
}

std::vector<std::string> missing_parents(const std::string& mount, const std::string& directory) {
  std::vector<std::string> missing;
  for (std::size_t slash = directory.rfind('/'); slash != std::string::npos && slash > mount.size();
       slash = directory.rfind('/', slash - 1)) {
    std::string parent = directory.substr(0, slash);
    if (access(parent.c_str(), F_OK) == 0) break;
    missing.push_back(std::move(parent));
  }
  std::reverse(missing.begin(), missing.end());
  return missing;
}

}  // namespace agentrun::sandbox
