#include <gtest/gtest.h>

#include <algorithm>

#include "policy/harden.h"

namespace agentrun::policy {
namespace {

using Options = std::vector<std::string>;

const std::string kOwn(64, 'a');
const std::string kOther(64, 'b');

// Like a container of rootful Podman.
struct Box {
  oci::Config config;
  Facts facts;
  Policy policy = *builtin_policy("strict");

  Box() {
    facts.bundle = "/var/lib/containers/storage/overlay-containers/" + kOwn + "/userdata";
    facts.trusted_sources = {
        "/var/lib/containers/storage", "/run/containers/storage", "/var/lib/docker",
        "/var/lib/containerd",         "/run/containerd",         "/home/me/.local/share/containers/storage"};
  }
  Box& mount(const std::string& destination, const std::string& type, Options options = {}) {
    config.mounts.push_back({destination, type, type, std::move(options), {}, {}});
    return *this;
  }
  Box& bind(const std::string& source, const std::string& destination, Options options = {"rbind"},
            FileKind kind = FileKind::directory) {
    config.mounts.push_back({destination, "bind", source, std::move(options), {}, {}});
    facts.sources[config.mounts.size() - 1] = {kind, source};
    return *this;
  }
  Result<Effective> harden() const { return policy::harden(config, policy, facts); }
  std::string error() const {
    const auto effective = harden();
    return effective ? "accepted" : effective.error().message();
  }
  oci::Mount last() const {
    const auto effective = harden();
    EXPECT_TRUE(effective) << effective.error().message();
    return effective ? effective->config.mounts.back() : oci::Mount();
  }
};

bool has(const oci::Mount& mount, const std::string& option) {
  return std::count(mount.options.begin(), mount.options.end(), option) > 0;
}

std::string bind_error(const std::string& source, const std::string& destination, FileKind kind = FileKind::directory) {
  return Box().bind(source, destination, {"rbind", "ro"}, kind).error();
}

TEST(BindSource, RefusesTheHost) {
  for (const char* source : {"/",
                             "/etc",
                             "/proc",
                             "/sys",
                             "/dev",
                             "/boot",
                             "/root",
                             "/run",
                             "/var/run",  // these
                             "/etc/shadow",
                             "/proc/1/root",
                             "/sys/kernel",
                             "/dev/net",
                             "/root/.ssh",
                             "/run/user/1000",  // below
                             "/var",
                             "/var/lib",  // above
                             "/var/lib/docker",
                             "/var/lib/kubelet/pki",
                             "/var/lib/containerd/x",  // stores
                             "/var/lib/kubelet/pods",
                             "/var/lib/kubelet",
                             "/var/lib/kubelet/pods/1",
                             "/home/me/.local/share/containers/storage/overlay",
                             "/home/me/.local",
                             "/home"}) {
    const std::string error = bind_error(source, "/x");
    EXPECT_NE(error.find("/mounts/0/source: "), std::string::npos) << source << ": " << error;
    EXPECT_NE(error.find(source), std::string::npos) << error;
  }
  for (const char* source : {"/srv", "/srv/data", "/opt", "/usr/share/x", "/etcetera", "/home/you", "/mnt"}) {
    EXPECT_EQ(bind_error(source, "/x"), "accepted") << source;
  }
}

// By the list of the policy alone: an engine that agentrun does not know has stores all the same.
TEST(BindSource, RefusesWhatHoldsARefusedOne) {
  for (const char* source : {"/var", "/var/lib"}) {
    Box box;
    box.facts.trusted_sources.clear();
    box.facts.bundle = "/srv/bundle";
    EXPECT_NE(box.bind(source, "/x").error().find("may not be bound"), std::string::npos) << source;
  }
}

TEST(BindSource, RefusesWhatIsNoFile) {
  for (const auto kind :
       {FileKind::socket, FileKind::fifo, FileKind::character_device, FileKind::block_device, FileKind::other}) {
    EXPECT_NE(bind_error("/srv/x", "/x", kind).find("/mounts/0/source"), std::string::npos);
  }
  Box unknown;
  unknown.config.mounts.push_back({"/x", "bind", "/srv", {"ro"}, {}, {}});
  EXPECT_NE(unknown.error().find("nothing is known"), std::string::npos);
  // "none" with the option is a bind as well.
  Box none;
  none.config.mounts.push_back({"/x", "none", "/", {"bind"}, {}, {}});
  none.facts.sources[0] = {FileKind::directory, "/"};
  EXPECT_NE(none.error().find("/mounts/0/source"), std::string::npos);
}

// What counts is what the source really is, not what it is called.
TEST(BindSource, JudgesTheRealPath) {
  Box box;
  box.bind("/srv/link", "/x");
  box.facts.sources[0].real_path = "/etc";
  EXPECT_NE(box.error().find("/etc may not be bound"), std::string::npos);
  // A missing source fails later; by its name it fails now.
  EXPECT_NE(bind_error("/srv/../etc/nope", "/x", FileKind::missing).find("/etc/nope"), std::string::npos);
  EXPECT_EQ(bind_error("/srv/nope", "/x", FileKind::missing), "accepted");
}

TEST(BindSource, KnowsTheEnginesOwnFiles) {
  const std::string podman = "/run/containers/storage/overlay-containers/";
  const std::string docker = "/var/lib/docker/containers/";
  const std::string cri = "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/";
  const std::vector<std::pair<std::string, std::string>> fine = {
      {podman + kOwn + "/userdata/hosts", "/etc/hosts"},
      {podman + kOwn + "/userdata/.containerenv", "/run/.containerenv"},
      {podman + kOwn + "/userdata/run/secrets", "/run/secrets"},
      {"/var/lib/containers/storage/overlay-containers/" + kOwn + "/userdata/secrets/s", "/run/secrets/s"},
      {"/var/lib/containers/storage/overlay-containers/" + kOwn + "/userdata/secrets/s", "/where/the/caller/said"},
      {podman + kOther + "/userdata/hosts", "/etc/hosts"},  // the pod's
      {docker + kOther + "/resolv.conf", "/etc/resolv.conf"},
      {cri + kOther + "/hostname", "/etc/hostname"},
      {"/var/lib/kubelet/pods/1/etc-hosts", "/etc/hosts"},
      {"/var/lib/kubelet/pods/1/containers/c/0", "/dev/termination-log"},
      {"/var/lib/kubelet/pods/1/volumes/kubernetes.io~projected/token",
       "/var/run/secrets/kubernetes.io/serviceaccount"},
  };
  for (const auto& [source, destination] : fine) {
    const oci::Mount mount = Box().bind(source, destination, {"bind", "rw"}, FileKind::regular).last();
    EXPECT_TRUE(has(mount, "ro") && has(mount, "nosuid") && has(mount, "nodev") && !has(mount, "rw")) << source;
  }
  const std::vector<std::pair<std::string, std::string>> bad = {
      {podman + kOther + "/userdata/config.json", "/etc/hosts"},  // its environment
      {podman + kOther + "/userdata/hosts", "/x"},
      {podman + kOther + "/userdata/secrets/s", "/run/secrets/s"},
      {podman + "name/userdata/hosts", "/etc/hosts"},
      {"/var/lib/containers/storage/overlay/" + kOther + "/diff/etc/hosts", "/etc/hosts"},
      {"/var/lib/containers/storage/overlay/x/diff/overlay-containers/" + kOther + "/userdata/shm", "/dev/shm"},
      {"/run/containerd/containerd.sock", "/etc/hosts"},
      {"/etc/hosts", "/etc/hosts"},
  };
  for (const auto& [source, destination] : bad) {
    EXPECT_NE(bind_error(source, destination, FileKind::regular).find("/mounts/0/source"), std::string::npos) << source;
  }
}

TEST(BindSource, LeavesSharedMemoryWritable) {
  const std::string shm = "/var/lib/containers/storage/overlay-containers/" + kOther + "/userdata/shm";
  const oci::Mount mount = Box().bind(shm, "/dev/shm", {"bind", "private", "noexec"}).last();
  EXPECT_FALSE(has(mount, "ro") || has(mount, "rro"));
  EXPECT_TRUE(has(mount, "nosuid") && has(mount, "nodev") && has(mount, "noexec"));
  EXPECT_NE(bind_error(shm, "/x"), "accepted");
}

// `podman --root /mnt/x`: the bundle says where the store is.
TEST(BindSource, FindsTheStoreByTheBundle) {
  Box box;
  box.facts.bundle = "/mnt/x/vfs-containers/" + kOwn + "/userdata";
  EXPECT_FALSE(has(Box(box).bind(box.facts.bundle + "/shm", "/dev/shm", {"bind"}).last(), "ro"));
  EXPECT_NE(Box(box).bind("/mnt/x/vfs/dir/1", "/x").error(), "accepted");
  EXPECT_NE(Box(box).bind("/mnt", "/x").error(), "accepted");
  EXPECT_EQ(Box(box).bind("/mnt/y", "/x").error(), "accepted");
}

TEST(BindSource, TakesVolumesAsOrdinaryBinds) {
  for (const char* source : {"/var/lib/containers/storage/volumes/v/_data", "/var/lib/docker/volumes/v/_data/sub",
                             "/home/me/.local/share/containers/storage/volumes/v/_data"}) {
    const oci::Mount mount = Box().bind(source, "/vol", {"rbind", "rw"}).last();
    EXPECT_TRUE(has(mount, "rro")) << source;
  }
  EXPECT_NE(bind_error("/var/lib/docker/volumes/v", "/vol"), "accepted");
}

TEST(BindSource, AdministratorsList) {
  Box box;
  box.policy = *parse_policy(
      R"({"mounts": {"allow_writable": ["/srv/out", "/root/project"], "allow_sources": ["/run/user/*/build"]}})", "p");
  EXPECT_FALSE(has(Box(box).bind("/srv/out/a", "/x", {"rbind", "rw"}).last(), "rro"));
  EXPECT_TRUE(has(Box(box).bind("/srv/out/a", "/x", {"rbind", "rw"}).last(), "rnosuid"));
  EXPECT_TRUE(has(Box(box).bind("/srv/output", "/x").last(), "rro"));
  EXPECT_FALSE(has(Box(box).bind("/root/project", "/x").last(), "rro"));
  EXPECT_TRUE(has(Box(box).bind("/run/user/1000/build/x", "/x").last(), "rro"));
  EXPECT_NE(Box(box).bind("/run/user/1000/bus", "/x").error(), "accepted");
  EXPECT_NE(Box(box).bind("/run/user/1000/x/build", "/x").error(), "accepted");  // "*" is one directory
  EXPECT_NE(Box(box).bind("/root", "/x").error(), "accepted");
  // An entry that is wider than what is refused lifts nothing.
  box.policy = *parse_policy(R"({"mounts": {"allow_writable": ["/", "/*"]}})", "p");
  EXPECT_NE(Box(box).bind("/etc", "/x").error(), "accepted");
  EXPECT_NE(Box(box).bind("/", "/x").error(), "accepted");
}

TEST(BindOptions, AreForcedForSubmountsToo) {
  const oci::Mount mount = Box().bind("/srv", "/x", {"rbind", "rw", "rrw", "dev", "suid", "rslave", "exec"}).last();
  EXPECT_EQ(mount.options, (Options{"rbind", "rprivate", "exec", "rro", "rnosuid", "rnodev"}));
  // "ro" alone leaves what is mounted below as it is.
  EXPECT_TRUE(has(Box().bind("/srv", "/x", {"rbind", "ro"}).last(), "rro"));
  EXPECT_EQ(Box().bind("/srv", "/x", {"bind", "ro", "nosuid", "nodev", "shared"}).last().options,
            (Options{"bind", "ro", "nosuid", "nodev", "private"}));
}

TEST(BindOptions, ReportHasBothSides) {
  Box box;
  box.bind("/srv", "/x", {"bind", "rw"});
  const auto effective = box.harden();
  ASSERT_TRUE(effective);
  const auto change = std::find_if(effective->report.changes.begin(), effective->report.changes.end(),
                                   [](const Change& c) { return c.pointer == "/mounts/0/options"; });
  ASSERT_NE(change, effective->report.changes.end());
  EXPECT_EQ(change->before, R"(["bind","rw"])");
  EXPECT_EQ(change->after, R"(["bind","ro","nosuid","nodev"])");
}

// Rootless Podman with the host's network binds the host's /sys: the namespace is new now, and so is what shows it.
TEST(HostMounts, BecomeNewOnes) {
  EXPECT_EQ(Box().bind("/sys", "/sys", {"rbind", "rw"}).last().type, "sysfs");
  EXPECT_TRUE(has(Box().bind("/sys", "/sys", {"rbind", "rw"}).last(), "ro"));
  EXPECT_EQ(Box().bind("/dev/shm", "/dev/shm", {"bind"}).last().type, "tmpfs");
  EXPECT_TRUE(has(Box().bind("/dev/shm", "/dev/shm", {"bind"}).last(), "size=65536k"));
  EXPECT_EQ(Box().bind("/dev/mqueue", "/dev/mqueue", {"bind"}).last().type, "mqueue");
  EXPECT_NE(bind_error("/sys", "/x"), "accepted");
  EXPECT_NE(bind_error("/proc", "/sys"), "accepted");
}

TEST(MountTypes, AreThoseOfAContainer) {
  for (const char* type :
       {"overlay", "nfs", "fuse", "ext4", "ramfs", "devtmpfs", "none", "", "debugfs", "securityfs"}) {
    EXPECT_NE(Box().mount("/x", type).error().find("/mounts/0/type"), std::string::npos) << type;
  }
  EXPECT_NE(Box().mount("/x", "proc").error().find("belongs on /proc"), std::string::npos);
  EXPECT_NE(Box().mount("/x", "sysfs").error(), "accepted");
  EXPECT_NE(Box().mount("/proc", "tmpfs").error(), "accepted");
  EXPECT_NE(Box().mount("/proc/self/attr", "tmpfs").error(), "accepted");
  EXPECT_NE(Box().mount("/", "tmpfs").error(), "accepted");
  EXPECT_NE(Box().bind("/srv/x", "/x/../proc/sys").error(), "accepted");
  EXPECT_EQ(Box().bind("/srv/x", "/proc/cpuinfo", {"bind"}, FileKind::regular).error(), "accepted");
  EXPECT_NE(Box().mount("/proc", "proc", {"remount", "rw"}).error(), "accepted");
  EXPECT_NE(Box().mount("/x", "tmpfs", {"size=1m,size=0"}).error(), "accepted");
}

TEST(MountTypes, OfTheKernelAreCleaned) {
  EXPECT_EQ(Box().mount("/proc", "proc", {"suid", "dev", "exec", "rw"}).last().options,
            (Options{"rw", "nosuid", "noexec", "nodev"}));
  EXPECT_EQ(Box().mount("/sys", "sysfs", {"nosuid", "rw"}).last().options,
            (Options{"nosuid", "noexec", "nodev", "ro"}));
  EXPECT_TRUE(has(Box().mount("/sys/fs/cgroup", "cgroup", {"rw"}).last(), "ro"));
  EXPECT_FALSE(has(Box().mount("/dev/pts", "devpts", {"gid=5"}).last(), "nodev"));
}

// What the engines mount for every container passes, and stays in its place.
TEST(MountTypes, OfEnginesPass) {
  const std::string own = "/run/containers/storage/overlay-containers/" + kOwn + "/userdata/";
  Box podman;
  podman.mount("/proc", "proc", {"nosuid", "noexec", "nodev"})
      .mount("/dev", "tmpfs", {"nosuid", "strictatime", "mode=755", "size=65536k"})
      .mount("/sys", "sysfs", {"nosuid", "noexec", "nodev", "ro"})
      .mount("/dev/pts", "devpts", {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"})
      .mount("/dev/mqueue", "mqueue", {"nosuid", "noexec", "nodev"})
      .mount("/run", "tmpfs", {"rw", "rprivate", "nosuid", "nodev", "tmpcopyup"})
      .bind(own + "hosts", "/etc/hosts", {"bind", "rprivate"}, FileKind::regular)
      .bind(own + ".containerenv", "/run/.containerenv", {"bind", "rprivate"}, FileKind::regular)
      .bind("/var/lib/containers/storage/overlay-containers/" + kOwn + "/userdata/shm", "/dev/shm",
            {"bind", "rprivate", "nosuid", "noexec", "nodev"})
      .bind("/usr/libexec/podman/catatonit", "/run/podman-init", {"bind", "ro"}, FileKind::regular)
      .mount("/sys/fs/cgroup", "cgroup", {"rprivate", "nosuid", "noexec", "nodev", "relatime", "ro"});
  const auto effective = podman.harden();
  ASSERT_TRUE(effective) << effective.error().message();
  ASSERT_EQ(effective->config.mounts.size(), podman.config.mounts.size());
  for (const auto& change : effective->report.changes) {
    const bool untouched = change.pointer.starts_with("/mounts/0/") || change.pointer.starts_with("/mounts/2/") ||
                           change.pointer.starts_with("/mounts/3/") || change.pointer.starts_with("/mounts/4/") ||
                           change.pointer.starts_with("/mounts/8/") || change.pointer.starts_with("/mounts/10/");
    EXPECT_FALSE(untouched) << change.pointer << " " << change.before << " " << change.after;
  }
  EXPECT_EQ(effective->writable->empty, (std::vector<std::string>{"/tmp", "/var/tmp"}));
}

// Podman binds --secret into a directory that it made for the container; another container's is not open to that.
TEST(BindSource, OwnDirectoriesAreSealedLast) {
  const std::string own = "/run/containers/storage/overlay-containers/" + kOwn + "/userdata/";
  Box podman;
  podman.bind("/srv/data", "/data")
      .bind(own + "run/secrets", "/run/secrets", {"bind", "rprivate"})
      .bind("/run/containers/storage/overlay-containers/" + kOther + "/userdata/hosts", "/etc/hosts", {"bind"},
            FileKind::regular);
  const auto effective = podman.harden();
  ASSERT_TRUE(effective) << effective.error().message();
  EXPECT_EQ(effective->sealed_last, std::vector<std::size_t>{1});
  EXPECT_TRUE(has(effective->config.mounts[1], "ro"));
}

// To the kernel a size of zero is no bound at all.
TEST(Tmpfs, IsNeverZeroHoweverSmallTheMemory) {
  Box box;
  box.config.linux.resources.emplace().memory.emplace().limit = 1;
  const oci::Mount mount = box.mount("/t", "tmpfs", {"size=1g"}).last();
  EXPECT_TRUE(has(mount, "size=4096"));
}

TEST(Tmpfs, IsAtMostAQuarterOfTheMemoryAndTheStoreAnother) {
  const auto size_of = [](const char* option) {
    for (const auto& o : Box().mount("/t", "tmpfs", {option}).last().options) {
      if (o.starts_with("size=")) return o;
    }
    return std::string("none");
  };
  const std::string half = "size=134217728";
  for (const char* option : {"size=1g", "size=50%", "size=0", "mode=755", "size=", "size=0x10000000000",
                             "size=99999999999999999999", "size=8E", "nr_blocks=0"}) {
    EXPECT_EQ(size_of(option), half) << option;
  }
  EXPECT_EQ(size_of("size=64m"), "size=64m");
  EXPECT_EQ(size_of("size=65536k"), "size=65536k");
  const oci::Mount mount =
      Box().mount("/t", "tmpfs", {"size=1m", "size=9g", "nr_inodes=0", "huge=always", "suid"}).last();
  EXPECT_EQ(mount.options, (Options{"nosuid", "nodev", half, "nr_inodes=32768"}));
  EXPECT_FALSE(has(Box().mount("/dev", "tmpfs").last(), "nodev"));
}

std::int64_t bytes_of(const oci::Mount& mount) {
  for (const auto& option : mount.options) {
    if (option.starts_with("size=")) return std::stoll(option.substr(5)) * (option.ends_with("k") ? 1024 : 1);
  }
  return -1;
}

// Each at its limit, all full: still below the memory limit.
// What engines ask for: the whole of /dev/shm, and the rest is the store's.
TEST(Tmpfs, OfAnOrdinaryContainer) {
  Box box;
  box.mount("/dev", "tmpfs", {"size=65536k"}).mount("/dev/shm", "tmpfs", {"size=65536k"});
  const auto effective = box.harden();
  ASSERT_TRUE(effective);
  EXPECT_EQ(bytes_of(effective->config.mounts[0]), 8 << 20);
  EXPECT_EQ(bytes_of(effective->config.mounts[1]), 64 << 20);
  EXPECT_EQ(effective->writable->size, (256 - 64 - 8) << 20);
}

TEST(Tmpfs, AllTogetherLeaveRoomForTheProgram) {
  for (const std::int64_t memory : {512ll << 10, 16ll << 20, 64ll << 20, 512ll << 20}) {
    for (const char* text :
         {R"({})", R"({"workdir": {"writable": false}})", R"({"workdir": {"backing": "disk", "size": "10G"}})"}) {
      Box box;
      box.policy = *parse_policy(text, "p");
      box.config.linux.resources.emplace().memory.emplace().limit = memory;
      box.mount("/dev", "tmpfs", {"size=65536k"}).mount("/dev/shm", "tmpfs", {"size=65536k"});
      for (const char* place : {"/a", "/b", "/c"}) box.mount(place, "tmpfs", {"size=8g"});
      box.mount("/small", "tmpfs", {"size=4k"});
      const auto effective = box.harden();
      ASSERT_TRUE(effective) << effective.error().message();
      const bool in_memory = effective->writable && !effective->writable->disk;
      std::int64_t total = in_memory ? effective->writable->size : 0;
      for (const auto& mount : effective->config.mounts) total += bytes_of(mount);
      EXPECT_LE(total, memory / 2) << memory << text;
      EXPECT_GT(total, memory / 4) << memory << text;
      EXPECT_EQ(bytes_of(effective->config.mounts.back()), 4096) << "one that is small keeps its size";
      EXPECT_TRUE(!in_memory || effective->writable->size >= memory / 4);
    }
  }
}

// --- what is writable ---

Writable writable_of(const Box& box, Report* report = nullptr) {
  const auto effective = box.harden();
  EXPECT_TRUE(effective) << effective.error().message();
  if (report != nullptr) *report = effective->report;
  return effective->writable.value_or(Writable());
}

TEST(Disk, HoldsWhatIsWritableWhereItCan) {
  Box box;
  box.policy = *parse_policy(
      R"({"workdir": {"backing": "disk", "directory": "/srv/disks", "size": "3G", "inodes": 5000}})", "p");
  Writable writable = writable_of(box);
  EXPECT_TRUE(writable.disk);
  EXPECT_EQ(writable.directory, "/srv/disks");
  EXPECT_EQ(writable.size, 3ll << 30) << "memory is no bound of it";
  EXPECT_EQ(writable.inodes, 5000);
  EXPECT_EQ(writable.empty, (std::vector<std::string>{"/tmp", "/var/tmp", "/run"}));

  box.facts.disk_missing = "mke2fs is not installed";
  EXPECT_EQ(box.error(),
            "apply policy p /workdir/backing: mke2fs is not installed; a policy with \"disk-or-memory\" there takes "
            "memory instead");

  box.policy.workdir.backing = Backing::disk_or_memory;
  Report report;
  writable = writable_of(box, &report);
  EXPECT_FALSE(writable.disk);
  EXPECT_EQ(writable.size, 256 << 20) << "half of the memory limit";
  ASSERT_FALSE(report.notes.empty());
  EXPECT_NE(report.notes.front().find("are in memory: mke2fs is not installed"), std::string::npos);

  box.policy.workdir.backing = Backing::memory;
  EXPECT_FALSE(writable_of(box).disk);
  box.facts.disk_missing.clear();
  EXPECT_FALSE(writable_of(box).disk);
}

TEST(Disk, HasRoomForItsOwnTables) {
  Box box;
  box.policy = *parse_policy(R"({"workdir": {"backing": "disk", "size": "16M", "inodes": 1000000}})", "p");
  EXPECT_EQ(writable_of(box).inodes, 4096);
}

Box box_with(const std::string& cwd, const std::string& home) {
  Box box;
  auto& process = box.config.process.emplace();
  process.cwd = cwd;
  if (!home.empty()) process.env = {"HOME=" + home};
  return box;
}

TEST(WritablePlan, IsHalfOfTheMemory) {
  const Writable writable = writable_of(box_with("/work", "/root"));
  EXPECT_EQ(writable.size, 256ll << 20);
  EXPECT_EQ(writable.inodes, 65536);
  EXPECT_EQ(writable.empty, (std::vector<std::string>{"/tmp", "/var/tmp", "/run"}));
  EXPECT_EQ(writable.overlays, (std::vector<std::string>{"/root", "/work"}));
  Box small = box_with("/", "");
  small.config.linux.resources.emplace().memory.emplace().limit = 64 << 20;
  EXPECT_EQ(writable_of(small).size, 32ll << 20);
  EXPECT_EQ(writable_of(small).inodes, 8192);
}

TEST(WritablePlan, IsNeverOverTheSystem) {
  for (const char* path :
       {"/", "/etc", "/usr", "/proc", "/sys", "/dev", "/proc/self", "/dev/shm", "/usr/", "/x/../etc", "relative", ""}) {
    EXPECT_TRUE(writable_of(box_with(path, path)).overlays.empty()) << path;
  }
  EXPECT_EQ(writable_of(box_with("/usr/src/app", "")).overlays, std::vector<std::string>{"/usr/src/app"});
  Report report;
  writable_of(box_with("/", ""), &report);
  EXPECT_TRUE(std::any_of(report.notes.begin(), report.notes.end(), [](const auto& note) {
    return note.starts_with("the working directory / stays read-only");
  }));
}

TEST(WritablePlan, IsNeverNested) {
  EXPECT_EQ(writable_of(box_with("/home/me/x", "/home/me")).overlays, std::vector<std::string>{"/home/me"});
  EXPECT_EQ(writable_of(box_with("/home", "/home/me")).overlays, std::vector<std::string>{"/home"});
  EXPECT_EQ(writable_of(box_with("/w", "/w")).overlays, std::vector<std::string>{"/w"});
  EXPECT_TRUE(writable_of(box_with("/tmp/x", "/run/me")).overlays.empty());
}

TEST(WritablePlan, LeavesTheConfigsMountsOnTop) {
  Box box = box_with("/work/sub", "");
  box.mount("/tmp", "tmpfs").bind("/srv", "/work").mount("/run", "tmpfs");
  Report report;
  const Writable writable = writable_of(box, &report);
  EXPECT_EQ(writable.empty, std::vector<std::string>{"/var/tmp"});
  EXPECT_TRUE(writable.overlays.empty());
  EXPECT_EQ(report.notes.size(), 5u);  // /tmp, /run, the working directory, no AppArmor, exec without Landlock
  // A mount below is no reason: it goes on top of the overlay.
  Box below = box_with("/work", "");
  below.bind("/srv", "/work/data");
  EXPECT_EQ(writable_of(below).overlays, std::vector<std::string>{"/work"});
}

}  // namespace
}  // namespace agentrun::policy
