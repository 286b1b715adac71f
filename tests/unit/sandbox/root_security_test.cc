// One test shaped like each exploit of the table of container escapes that concerns mounts, masks and devices: an image
// or a neighbour that plants symlinks, exchanges files, or hides what masks should cover. Each asserts what became of
// the host, or of what the container sees, never only that an error came.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "root_fixture.h"
#include "sandbox/rootfs.h"
#include "sys/mount.h"

namespace agentrun::sandbox {
namespace {

using namespace agentrun::sandbox::testing;
using ::testing::HasSubstr;
using ::testing::Not;

class RootSecurity : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_ROOT(); }

  static Scenario with_proc_and_dev() {
    Scenario scenario;
    scenario.config().mounts = {mount_of("proc", "proc", "/proc", {"nosuid", "noexec", "nodev"}),
                                mount_of("tmpfs", "tmpfs", "/dev", {"nosuid", "mode=755"})};
    return scenario;
  }
};

// CVE-2019-19921, CVE-2023-27561, CVE-2023-28642, CVE-2025-54867.
TEST_F(RootSecurity, ProcOrSysOfTheImageIsASymlink) {
  for (const std::string place : {"proc", "sys"}) {
    Scenario scenario = with_proc_and_dev();
    scenario.config().mounts.push_back(mount_of("sysfs", "sysfs", "/sys", {"ro"}));
    scenario.prepare = [place](const std::string& bundle) {
      make_directory(bundle + "/outside");
      make_directory(bundle + "/rootfs/bad");
      make_link(place == "proc" ? "/bad" : "../../outside", bundle + "/rootfs/" + place);
    };
    scenario.inside = [] { return std::string("entered"); };
    scenario.afterwards = [](const std::string& bundle) {
      return list(bundle + "/rootfs/bad") + list(bundle + "/outside");
    };
    const Outcome outcome = run(scenario);
    EXPECT_THAT(outcome.error, HasSubstr("must be mounted on ordinary directory")) << place;
    EXPECT_EQ(outcome.inside, "");
    EXPECT_EQ(outcome.host, "");
  }
}

// CVE-2021-30465: a neighbour who shares a volume exchanges the target of a mount in it for a symlink to the host.
TEST_F(RootSecurity, AMountTargetInASharedVolumeIsExchanged) {
  Scenario scenario = with_proc_and_dev();
  pid_t attacker = 0;
  scenario.prepare = [&attacker](const std::string& bundle) {
    make_directory(bundle + "/volume/target");
    make_directory(bundle + "/secret");
    make_directory(bundle + "/rootfs/volume");
    make_link("../../../../../../../../.." + bundle + "/secret", bundle + "/volume/link");
    attacker = fork();
    if (attacker == 0) {
      const std::string target = bundle + "/volume/target", link = bundle + "/volume/link";
      while (true) renameat2(AT_FDCWD, target.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
    }
  };
  scenario.config().mounts.push_back(bind_of("volume", "/volume"));
  for (int i = 0; i < 40; ++i) {
    scenario.config().mounts.push_back(mount_of("tmpfs", "tmpfs", "/volume/target/" + std::to_string(i)));
  }
  std::string covered;
  scenario.between = [](const std::string& bundle) {
    // The host's tree is still in sight: nothing may be mounted in it.
    if (mount_line(bundle + "/secret") != "" || list(bundle + "/secret") != "") _exit(7);
  };
  scenario.afterwards = [&attacker](const std::string& bundle) {
    kill(attacker, SIGKILL);
    waitpid(attacker, nullptr, 0);
    return "secret: " + list(bundle + "/secret");
  };
  for (int round = 0; round < 10; ++round) {
    const Outcome outcome = run(scenario);
    EXPECT_THAT(outcome.error, Not(HasSubstr("ended with"))) << "something was mounted or made outside";
    EXPECT_EQ(outcome.host, "secret: ");
  }
}

// CVE-2024-45310, CVE-2019-18837: mount points made on the host through symlinks of the image.
TEST_F(RootSecurity, MountPointsAreNotMadeOnTheHost) {
  Scenario scenario = with_proc_and_dev();
  scenario.prepare = [](const std::string& bundle) {
    make_directory(bundle + "/outside");
    write(bundle + "/file", "x");
    make_link(bundle + "/outside", bundle + "/rootfs/absolute");
    make_link("../../../../../.." + bundle + "/outside", bundle + "/rootfs/climbing");
  };
  auto& mounts = scenario.config().mounts;
  mounts.push_back(mount_of("tmpfs", "tmpfs", "/absolute/dir"));
  mounts.push_back(bind_of("file", "/climbing/file"));
  mounts.push_back(bind_of("file", "/../../../../../tmp/up"));
  scenario.inside = [] { return list("/tmp") + " " + std::to_string(list("/tmp").size() > 5); };
  scenario.afterwards = [](const std::string& bundle) { return "outside: " + list(bundle + "/outside"); };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.host, "outside: ");
}

// CVE-2025-31133 (CVE-2025-62161): /dev/null of the container is a symlink to what should be masked, or to what the
// attacker wants to have writable.
TEST_F(RootSecurity, DevNullOfTheImageIsASymlink) {
  Scenario scenario;
  scenario.config().mounts = {mount_of("proc", "proc", "/proc")};
  scenario.config().linux.masked_paths = {"/proc/kcore", "/secret"};
  scenario.prepare = [](const std::string& bundle) {
    make_directory(bundle + "/rootfs/dev");
    write(bundle + "/rootfs/secret", "secret");
    make_link("/proc/sys/kernel/core_pattern", bundle + "/rootfs/dev/null");
  };
  scenario.inside = [] { return std::string("entered"); };
  Outcome outcome = run(scenario);
  EXPECT_THAT(outcome.error, HasSubstr("/dev/null"));
  EXPECT_EQ(outcome.inside, "");

  // Exchanged only after the devices were made: the mask does not come from there at all.
  scenario = with_proc_and_dev();
  scenario.config().linux.masked_paths = {"/proc/kcore", "/secret"};
  scenario.prepare = [](const std::string& bundle) { write(bundle + "/rootfs/secret", "secret"); };
  scenario.between = [](const std::string& bundle) {
    unlink((bundle + "/rootfs/dev/null").c_str());
    make_link("/secret", bundle + "/rootfs/dev/null");
  };
  scenario.inside = [] { return device_of("/secret") + "," + read("/secret"); };
  outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "c 1:3,");
}

// CVE-2025-52565: /dev/console and /dev/pts/N are symlinks when the terminal is put there.
TEST_F(RootSecurity, ConsoleOfTheImageIsASymlink) {
  Scenario scenario;
  scenario.config().process.emplace().terminal = true;
  scenario.prepare = [](const std::string& bundle) {
    make_directory(bundle + "/rootfs/dev");
    make_link("../../victim", bundle + "/rootfs/dev/console");
  };
  scenario.afterwards = [](const std::string& bundle) { return list(bundle) + " " + list(bundle + "/rootfs"); };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.host, "rootfs dev");
}

// CVE-2026-41579, CVE-2026-47766: /dev of the image is a symlink out; nodes are made and ptmx is removed there.
TEST_F(RootSecurity, DevOfTheImageIsASymlink) {
  for (const bool absolute : {true, false}) {
    Scenario scenario;
    scenario.config().mounts = {mount_of("proc", "proc", "/proc")};
    oci::Device device;
    device.path = "/dev/extra";
    device.major = 1;
    device.minor = 3;
    scenario.config().linux.devices = {device};
    scenario.prepare = [absolute](const std::string& bundle) {
      make_directory(bundle + "/outside-dev");
      write(bundle + "/outside-dev/ptmx", "outside marker");
      make_link(absolute ? bundle + "/outside-dev" : "../outside-dev", bundle + "/rootfs/dev");
    };
    scenario.afterwards = [](const std::string& bundle) {
      return list(bundle + "/outside-dev") + " " + read(bundle + "/outside-dev/ptmx");
    };
    const Outcome outcome = run(scenario);
    EXPECT_THAT(outcome.error, HasSubstr("/dev: must be an ordinary directory"));
    EXPECT_EQ(outcome.host, "ptmx outside marker");
  }
}

// The same by a device whose directory is a symlink out of the root.
TEST_F(RootSecurity, DirectoryOfADeviceIsASymlink) {
  Scenario scenario = with_proc_and_dev();
  oci::Device device;
  device.path = "/lib/deep/node";
  device.major = 1;
  device.minor = 3;
  scenario.config().linux.devices = {device};
  scenario.prepare = [](const std::string& bundle) {
    make_directory(bundle + "/outside");
    make_link("../../../../.." + bundle + "/outside", bundle + "/rootfs/lib");
  };
  scenario.afterwards = [](const std::string& bundle) { return "outside: " + list(bundle + "/outside"); };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.host, "outside: ");
}

// A device of the config with the name of another: /dev/ptmx as node would open the host's terminals.
TEST_F(RootSecurity, PtmxIsAlwaysTheContainersOwn) {
  Scenario scenario = with_proc_and_dev();
  oci::Device device;
  device.path = "/dev/ptmx";
  device.major = 5;
  device.minor = 2;
  scenario.config().linux.devices = {device};
  scenario.inside = [] { return link_text("/dev/ptmx"); };
  EXPECT_EQ(run(scenario).inside, "pts/ptmx");
  scenario.user_namespace = true;
  EXPECT_EQ(run(scenario).inside, "pts/ptmx");
}

// CVE-2019-16884: the image puts a directory of its own over /proc; what is masked there is masked all the same, and
// nothing is taken for a procfs that is none.
TEST_F(RootSecurity, ProcIsAVolume) {
  Scenario scenario = with_proc_and_dev();
  scenario.config().mounts.push_back(bind_of("fake", "/proc"));
  scenario.config().linux.masked_paths = {"/proc/kcore", "/proc/missing"};
  scenario.config().linux.readonly_paths = {"/proc/sys"};
  scenario.prepare = [](const std::string& bundle) {
    make_directory(bundle + "/fake/sys");
    write(bundle + "/fake/kcore", "fake");
  };
  scenario.inside = [] { return words({device_of("/proc/kcore"), write("/proc/sys/x", "x")}); };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_THAT(outcome.inside, HasSubstr("c 1:3 errno 30"));
}

// A masked path that is a symlink out of the root, or to /proc/self/root.
TEST_F(RootSecurity, AMaskedPathIsASymlink) {
  Scenario scenario = with_proc_and_dev();
  scenario.config().linux.masked_paths = {"/out", "/alias"};
  scenario.prepare = [](const std::string& bundle) {
    write(bundle + "/victim", "host");
    make_link("../../../../../../../.." + bundle + "/victim", bundle + "/rootfs/out");
    write(bundle + "/rootfs/real", "secret");
    make_link("/real", bundle + "/rootfs/alias");
  };
  scenario.inside = [] { return device_of("/real"); };
  scenario.afterwards = [](const std::string& bundle) { return read(bundle + "/victim"); };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "c 1:3");
  EXPECT_EQ(outcome.host, "host");
}

TEST_F(RootSecurity, MasksAndReadonlyPathsHold) {
  Scenario scenario = with_proc_and_dev();
  auto& container = scenario.config().linux;
  container.masked_paths = {"/proc/kcore", "/one", "/two", "/one", "//one/", "/missing", "/f1", "/f2"};
  container.readonly_paths = {"/proc/sys", "/proc/sysrq-trigger", "/ro", "/missing"};
  scenario.prepare = [](const std::string& bundle) {
    for (const char* name : {"one", "two", "ro"}) {
      make_directory(bundle + "/rootfs/" + name);
      write(bundle + "/rootfs/" + name + "/inner", "secret");
    }
    write(bundle + "/rootfs/f1", "secret");
    write(bundle + "/rootfs/f2", "secret");
  };
  scenario.inside = [] {
    struct stat one {
    }, two{};
    stat("/one", &one);
    stat("/two", &two);
    return "[" + list("/one") + list("/two") + "]" + write("/two/x", "x").substr(0, 8) + "," +
           (one.st_dev == two.st_dev ? "shared" : "apart") + "," + std::to_string(count_mounts("/one")) + "," +
           device_of("/f1") + "," + device_of("/f2") + "," + flags_of_mount("/f2") + "," + read("/ro/inner") + "," +
           write("/ro/x", "x").substr(0, 8) + "," + flags_of_mount("/proc/sys") + "," +
           write("/proc/sys/kernel/hostname", "x").substr(0, 8);
  };
  Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  const std::string expected =
      "[]errno 30,shared,1,c 1:3,c 1:3,ro,nosuid,noexec,relatime,secret,errno 30,ro,nosuid,nodev,noexec,relatime,errno "
      "30";
  EXPECT_EQ(outcome.inside, expected);
  scenario.user_namespace = true;
  scenario.config().root.readonly = true;
  outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, expected);
}

TEST_F(RootSecurity, ReadonlyPathsKeepTheFlagsOfTheMount) {
  Scenario scenario = with_proc_and_dev();
  scenario.prepare = [](const std::string& bundle) { make_directory(bundle + "/src"); };
  scenario.config().mounts.push_back(bind_of("src", "/test/world", {"rbind", "nosuid", "noexec", "nodev"}));
  scenario.config().linux.readonly_paths = {"/test/world"};
  scenario.inside = [] { return flags_of_mount("/test/world"); };
  EXPECT_EQ(run(scenario).inside, "ro,nosuid,nodev,noexec,relatime");
}

// CVE-2023-25809: the host's cgroups are writable where the container has no cgroup namespace.
TEST_F(RootSecurity, TheHostsCgroupsAreNeverWritable) {
  Scenario scenario = with_proc_and_dev();
  scenario.config().mounts.push_back(mount_of("sysfs", "sysfs", "/sys", {"ro"}));
  scenario.config().mounts.push_back(mount_of("cgroup", "cgroup", "/sys/fs/cgroup", {"rw"}));
  const bool unified = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
  scenario.cgroups.unified = unified;
  if (!unified) scenario.cgroups.v1_paths = {{"pids", ""}, {"freezer", "/"}};
  scenario.inside = [unified] {
    return flags_of_mount(unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/pids") + " " +
           (unified ? "" : flags_of_mount("/sys/fs/cgroup/freezer"));
  };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_THAT(outcome.inside, HasSubstr("ro,"));
  EXPECT_THAT(outcome.inside, Not(HasSubstr("rw,")));
}

// Without a namespace: its own directory, and nothing above it.
TEST_F(RootSecurity, OnlyTheContainersOwnCgroupIsShown) {
  Scenario scenario = with_proc_and_dev();
  const bool unified = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
  const std::string host = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/pids";
  if (access(host.c_str(), W_OK) != 0) GTEST_SKIP() << "no cgroup hierarchy at " << host;
  scenario.config().mounts.push_back(mount_of("sysfs", "sysfs", "/sys", {"ro"}));
  scenario.config().mounts.push_back(mount_of("cgroup", "cgroup", "/sys/fs/cgroup", {"rw", "nosuid"}));
  scenario.cgroups.unified = unified;
  if (unified) {
    scenario.cgroups.v2_path = "/agentrun-mounts-test";
  } else {
    scenario.cgroups.v1_paths = {{"pids", "/agentrun-mounts-test"}};
  }
  scenario.prepare = [host](const std::string&) { mkdir((host + "/agentrun-mounts-test").c_str(), 0755); };
  scenario.inside = [host] { return mount_line(host); };
  scenario.afterwards = [host](const std::string&) {
    return std::to_string(rmdir((host + "/agentrun-mounts-test").c_str()));
  };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_THAT(outcome.inside, HasSubstr(" /agentrun-mounts-test " + host + " rw,nosuid"));
  EXPECT_EQ(outcome.host, "0");
}

TEST_F(RootSecurity, SysOfTheHostInAUserNamespaceIsReadonlyThroughout) {
  Scenario scenario = with_proc_and_dev();
  scenario.user_namespace = true;
  scenario.network_namespace = false;  // not its own: sysfs may not be mounted
  scenario.config().mounts.push_back(mount_of("sysfs", "sysfs", "/sys", {"nosuid", "ro"}));
  scenario.inside = [] {
    const std::string table = read("/proc/self/mountinfo");
    std::string writable;
    std::size_t start = 0;
    while (start < table.size()) {
      const std::size_t end = table.find('\n', start);
      const std::string line = table.substr(start, end - start);
      if (line.find(" /sys") != std::string::npos && line.find(" rw,") < line.find(" - ")) writable += line + "\n";
      start = end + 1;
    }
    return "writable: " + writable + flags_of_mount("/sys");
  };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "writable: ro,nosuid,nodev,noexec,relatime");
}

TEST_F(RootSecurity, CgroupOptionsAreHonoured) {
  const bool unified = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
  for (const char* word : {"ro", "rw"}) {
    Scenario scenario = with_proc_and_dev();
    scenario.cgroups.namespaced = true;
    scenario.cgroups.unified = unified;
    if (!unified) {
      if (access("/sys/fs/cgroup/pids", F_OK) == 0) scenario.cgroups.v1_paths["pids"] = "/";
      if (access("/sys/fs/cgroup/systemd", F_OK) == 0) scenario.cgroups.v1_paths["systemd"] = "/";
      if (access("/sys/fs/cgroup/unified", F_OK) == 0) scenario.cgroups.v2_path = "/";
    }
    scenario.config().mounts.push_back(
        mount_of("cgroup", "cgroup", "/sys/fs/cgroup", {"nosuid", "noexec", "nodev", word}));
    scenario.inside = [&] {
      std::string text = flags_of_mount("/sys/fs/cgroup");
      for (const auto& [name, path] : scenario.cgroups.v1_paths) text += " " + flags_of_mount("/sys/fs/cgroup/" + name);
      if (!scenario.cgroups.v2_path.empty()) text += " " + flags_of_mount("/sys/fs/cgroup/unified");
      return text;
    };
    const Outcome outcome = run(scenario);
    EXPECT_EQ(outcome.error, "");
    EXPECT_THAT(outcome.inside, HasSubstr(std::string(word) + ",nosuid,nodev,noexec"));
    EXPECT_THAT(outcome.inside, Not(HasSubstr(word == std::string("ro") ? "rw," : "ro,")));
    EXPECT_THAT(outcome.inside, Not(HasSubstr("none")));
  }
}

// An image whose /dev is used as it is: nodes that are there already, other files, links.
TEST_F(RootSecurity, DevOfTheImageIsUsedWithCare) {
  Scenario scenario;
  scenario.config().mounts = {mount_of("proc", "proc", "/proc")};
  scenario.prepare = [](const std::string& bundle) {
    const std::string dev = bundle + "/rootfs/dev";
    make_directory(dev);
    if (mknod((dev + "/zero").c_str(), S_IFCHR | 0600, makedev(1, 5)) != 0) _exit(9);
    write(dev + "/full", "a file");
    write(dev + "/ptmx", "a file");
    make_link("elsewhere", dev + "/stdin");
  };
  scenario.inside = [] {
    return mode_of("/dev/zero") + " " + device_of("/dev/full") + " " + link_text("/dev/ptmx") + " " +
           link_text("/dev/stdin") + " " + link_text("/dev/fd");
  };
  scenario.afterwards = [](const std::string& bundle) { return read(bundle + "/rootfs/dev/full"); };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "666 c 1:7 pts/ptmx elsewhere /proc/self/fd");
  EXPECT_EQ(outcome.host, "a file");
}

// /dev is a bind of the host's directory: nothing is made in it, nothing removed.
TEST_F(RootSecurity, ABoundDevIsLeftAlone) {
  Scenario scenario;
  scenario.prepare = [](const std::string& bundle) {
    make_directory(bundle + "/dev");
    write(bundle + "/dev/ptmx", "host's");
  };
  scenario.config().mounts = {bind_of("dev", "/dev", {"rbind", "rw"})};
  scenario.afterwards = [](const std::string& bundle) {
    return list(bundle + "/dev") + " " + read(bundle + "/dev/ptmx");
  };
  EXPECT_EQ(run(scenario).host, "ptmx host's");
}

TEST_F(RootSecurity, DevicesHaveTheirModeAndOwner) {
  Scenario scenario = with_proc_and_dev();
  oci::Device fifo;
  fifo.type = 'p';
  fifo.path = "/dev/dir/fifo";
  fifo.file_mode = 0660;
  fifo.uid = 1;
  fifo.gid = 2;
  oci::Device node;
  node.type = 'u';
  node.path = "/top";
  node.major = 251;
  node.minor = 300;
  node.file_mode = 0640;
  node.uid = 3;
  oci::Device tty;
  tty.path = "/dev/tty";
  tty.major = 5;
  tty.file_mode = 0620;
  scenario.config().linux.devices = {fifo, node, tty};
  scenario.inside = [] {
    return device_of("/dev/dir/fifo") + " " + mode_of("/dev/dir/fifo") + " " + owner_of("/dev/dir/fifo") + "," +
           device_of("/top") + " " + mode_of("/top") + " " + owner_of("/top") + "," + mode_of("/dev/tty");
  };
  EXPECT_EQ(run(scenario).inside, "p 0:0 660 1:2,c 251:300 640 3:0,620");
}

// A rootless bind is opened again by its path: another file there by then is refused.
TEST_F(RootSecurity, AnExchangedSourceIsRefused) {
  oci::Config config;
  config.mounts = {bind_of("/tmp", "/data")};
  policy::Effective effective;
  effective.config = config;
  const pid_t pid = fork();
  if (pid == 0) {
    if (unshare(CLONE_NEWNS) != 0) _exit(9);
    auto sources = open_bind_sources(config, "/");
    if (!sources) _exit(8);
    BindSource& source = sources->at(0);
    source.detached = false;  // as an unprivileged caller's
    sources->fds.at(source.slot).reset(open("/usr", O_PATH | O_CLOEXEC));
    source.facts.real_path = "/tmp";
    char name[] = "/tmp/agentrun-root-XXXXXX";
    if (mkdtemp(name) == nullptr) _exit(9);
    RootRequest request;
    request.effective = &effective;
    request.sources = &*sources;
    request.rootfs = name;
    const auto built = build_root(request);
    umount2(name, MNT_DETACH);
    rmdir(name);
    _exit(!built && built.error().message().find("exchanged meanwhile") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace agentrun::sandbox
