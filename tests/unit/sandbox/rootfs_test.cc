// The root as a container finds it: build_root and enter_root for real, in namespaces of their own.
#include "sandbox/rootfs.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "root_fixture.h"
#include "sys/mount.h"

namespace agentrun::sandbox {
namespace {

using namespace agentrun::sandbox::testing;
using ::testing::HasSubstr;
using ::testing::Not;

class Rootfs : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_ROOT(); }

  // proc, dev, pts, shm, sys, as engines write them.
  static Scenario usual() {
    Scenario scenario;
    scenario.config().mounts = {
        mount_of("proc", "proc", "/proc", {"nosuid", "noexec", "nodev"}),
        mount_of("tmpfs", "tmpfs", "/dev", {"nosuid", "strictatime", "mode=755", "size=65536k"}),
        mount_of("devpts", "devpts", "/dev/pts", {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}),
        mount_of("tmpfs", "shm", "/dev/shm", {"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}),
        mount_of("mqueue", "mqueue", "/dev/mqueue", {"nosuid", "noexec", "nodev"}),
        mount_of("sysfs", "sysfs", "/sys", {"nosuid", "noexec", "nodev", "ro"})};
    return scenario;
  }
};

TEST_F(Rootfs, TheUsualMountsAreThere) {
  Scenario scenario = usual();
  scenario.inside = [] {
    return flags_of_mount("/proc") + "\n" + flags_of_mount("/dev") + "\n" + flags_of_mount("/dev/pts") + "\n" +
           flags_of_mount("/sys") + "\n" + list("/dev") + "\n" + link_text("/proc/self") + "\n" + mode_of("/dev/shm") +
           "\n" + list("/");
  };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside,
            "rw,nosuid,nodev,noexec,relatime\nrw,nosuid\nrw,nosuid,noexec,relatime\nro,nosuid,nodev,noexec,relatime\n"
            "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero\n1\n1777\ndev proc sys");
}

TEST_F(Rootfs, NothingOfTheHostIsLeft) {
  Scenario scenario = usual();
  scenario.inside = [] { return read("/proc/self/mountinfo"); };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_THAT(outcome.inside, Not(HasSubstr("agentrun-root")));
  EXPECT_EQ(std::count(outcome.inside.begin(), outcome.inside.end(), '\n'), 7);
}

TEST_F(Rootfs, TheHostSeesNoneOfIt) {
  Scenario scenario = usual();
  scenario.afterwards = [](const std::string& bundle) {
    const std::string table = read("/proc/self/mountinfo");
    return table.find(bundle + "/rootfs") == std::string::npos ? "clean" : table;
  };
  EXPECT_EQ(run(scenario).host, "clean");
}

TEST_F(Rootfs, ReadonlyRootIsReadonlyAndMountsInItAreNot) {
  Scenario scenario = usual();
  scenario.config().root.readonly = true;
  scenario.inside = [] { return words({write("/x", "x").substr(0, 8), write("/dev/shm/x", "x")}); };
  EXPECT_EQ(run(scenario).inside, "errno 30 ok");
}

TEST_F(Rootfs, RootPropagation) {
  for (const auto& [word, expected] : std::vector<std::pair<std::string, std::string>>{{"", " - "},
                                                                                       {"rprivate", " - "},
                                                                                       {"shared", " shared:"},
                                                                                       {"rslave", " - "},
                                                                                       {"unbindable", " unbindable"}}) {
    Scenario scenario = usual();
    scenario.config().linux.rootfs_propagation = word;
    scenario.inside = [] { return mount_line("/"); };
    const Outcome outcome = run(scenario);
    EXPECT_EQ(outcome.error, "") << word;
    EXPECT_THAT(outcome.inside, HasSubstr(expected)) << word;
  }
  Scenario wrong = usual();
  wrong.config().linux.rootfs_propagation = "sideways";
  EXPECT_THAT(run(wrong).error, HasSubstr("sideways"));
}

TEST_F(Rootfs, WithoutPivotNoKernelMountOfTheHostIsLeft) {
  Scenario scenario = usual();
  scenario.pivot = false;
  scenario.inside = [] {
    return std::to_string(count_mounts("/proc")) + " " + flags_of_mount("/proc") + " " + list("/");
  };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "1 rw,nosuid,nodev,noexec,relatime dev proc sys");
}

// errno of mounting a procfs in a new user namespace, as a process without any capability can try.
std::string mount_proc_in_user_namespace() {
  const pid_t pid = fork();
  if (pid == 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID) != 0) _exit(200);
    const pid_t inner = fork();
    if (inner == 0) {
      const auto mount = sys::new_mount("proc", {}, 0);
      _exit(mount ? 0 : mount.error().code);
    }
    int status = 0;
    waitpid(inner, &status, 0);
    _exit(WEXITSTATUS(status));
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return std::to_string(WEXITSTATUS(status));
}

// runc's no_pivot.bats: an unmasked procfs of the host that stays in the mount namespace lets a user namespace inside
// mount one without masks.
TEST_F(Rootfs, NoBareProcCanBeMountedInside) {
  for (const bool pivot : {true, false}) {
    Scenario scenario = usual();
    scenario.pivot = pivot;
    scenario.config().linux.readonly_paths = {"/proc/sys"};
    scenario.inside = mount_proc_in_user_namespace;
    const Outcome outcome = run(scenario);
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.inside, std::to_string(EPERM)) << pivot;
  }
}

TEST_F(Rootfs, BindsOfDirectoriesAndFiles) {
  Scenario scenario = usual();
  scenario.prepare = [](const std::string& bundle) {
    make_directory(bundle + "/data");
    write(bundle + "/data/f", "content");
    write(bundle + "/file", "one file");
  };
  scenario.config().mounts.push_back(bind_of("data", "/data", {"bind", "ro", "nosuid", "nodev"}));
  scenario.config().mounts.push_back(bind_of("file", "/etc/deep/file"));
  scenario.config().mounts.push_back(bind_of("data", "relative//place"));
  scenario.inside = [] {
    return words({read("/data/f"), flags_of_mount("/data"), write("/data/x", "").substr(0, 8), read("/etc/deep/file"),
                  write("/relative/place/y", "y")});
  };
  scenario.afterwards = [](const std::string& bundle) { return read(bundle + "/data/y"); };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "content ro,nosuid,nodev,relatime errno 30 one file ok");
  EXPECT_EQ(outcome.host, "y");
}

TEST_F(Rootfs, AMissingSourceIsAnErrorThatNamesIt) {
  Scenario scenario = usual();
  scenario.config().mounts.push_back(bind_of("/no/such/place", "/data"));
  EXPECT_EQ(run(scenario).error, "mount bind on /data (bind mount /no/such/place): No such file or directory");
}

TEST_F(Rootfs, BindsAreRecursiveOrNot) {
  Scenario scenario = usual();
  scenario.prepare = [](const std::string& bundle) {
    make_directory(bundle + "/tree/below");
    const auto place = open((bundle + "/tree/below").c_str(), O_PATH | O_CLOEXEC);
    const auto mount = sys::new_mount("tmpfs", {}, 0);
    if (!mount || !sys::attach_mount(mount->get(), place)) _exit(9);
    close(place);
  };
  auto& mounts = scenario.config().mounts;
  mounts.push_back(bind_of("tree", "/plain", {"bind"}));
  mounts.push_back(bind_of("tree", "/deep", {"rbind", "ro"}));
  mounts.push_back(bind_of("tree", "/sealed", {"rbind", "rro", "rnosuid", "rnoatime"}));
  scenario.inside = [] {
    std::string text;
    for (const char* top : {"/plain", "/deep", "/sealed"}) {
      text += flags_of_mount(top) + " " + flags_of_mount(std::string(top) + "/below") + "\n";
    }
    return text;
  };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "rw,relatime none\nro,relatime rw,relatime\nro,nosuid,noatime ro,nosuid,noatime\n");
}

TEST_F(Rootfs, FlagsOfTheSourceAreKeptOrReplaced) {
  Scenario scenario = usual();
  scenario.prepare = [](const std::string& bundle) {
    make_directory(bundle + "/src");
    const auto place = open((bundle + "/src").c_str(), O_PATH | O_CLOEXEC);
    const auto mount = sys::new_mount("tmpfs", {}, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOATIME);
    if (!mount || !sys::attach_mount(mount->get(), place)) _exit(9);
    close(place);
  };
  auto& mounts = scenario.config().mounts;
  mounts.push_back(bind_of("src", "/kept", {"bind", "rprivate"}));
  mounts.push_back(bind_of("src", "/replaced", {"bind", "nosuid"}));
  mounts.push_back(bind_of("src", "/atime", {"bind", "rw", "exec", "strictatime"}));
  scenario.inside = [] {
    return flags_of_mount("/kept") + " " + flags_of_mount("/replaced") + " " + flags_of_mount("/atime");
  };
  EXPECT_EQ(run(scenario).inside, "ro,noexec,noatime rw,nosuid,noatime rw");

  scenario.user_namespace = true;
  mounts.pop_back();
  Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "ro,noexec,noatime ro,nosuid,noexec,noatime none");
  mounts.push_back(bind_of("src", "/rw", {"bind", "rw"}));
  EXPECT_THAT(run(scenario).error, HasSubstr("Operation not permitted"));
}

TEST_F(Rootfs, PropagationOfBinds) {
  Scenario scenario = usual();
  scenario.config().linux.rootfs_propagation = "rslave";
  scenario.prepare = [](const std::string& bundle) {
    make_directory(bundle + "/src");
    const auto place = open((bundle + "/src").c_str(), O_PATH | O_CLOEXEC);
    const auto mount = sys::new_mount("tmpfs", {}, 0);
    if (!mount || !sys::attach_mount(mount->get(), place)) _exit(9);
    close(place);
    if (!sys::set_propagation(bundle + "/src", MS_SHARED)) _exit(9);
  };
  auto& mounts = scenario.config().mounts;
  mounts.push_back(bind_of("src", "/default", {"rbind"}));
  mounts.push_back(bind_of("src", "/slave", {"rbind", "rslave"}));
  mounts.push_back(bind_of("src", "/shared", {"rbind", "rshared"}));
  const auto words = [] {
    std::string text;
    for (const char* place : {"/default", "/slave", "/shared"}) {
      const std::string line = mount_line(place);
      text += std::string(line.find("master:") != std::string::npos ? "slave" : "") +
              (line.find("shared:") != std::string::npos ? "shared" : "") + ",";
    }
    return text;
  };
  scenario.inside = words;
  EXPECT_EQ(run(scenario).inside, ",slave,shared,");
  // In a user namespace a peer of the host's mount would let the container mount on the host.
  scenario.user_namespace = true;
  EXPECT_EQ(run(scenario).inside, ",slave,slaveshared,");
}

TEST_F(Rootfs, TmpfsLooksLikeTheDirectoryThatItCovers) {
  Scenario scenario = usual();
  scenario.prepare = [](const std::string& bundle) { make_directory(bundle + "/rootfs/there", 0710); };
  auto& mounts = scenario.config().mounts;
  mounts.push_back(mount_of("tmpfs", "tmpfs", "/there"));
  mounts.push_back(mount_of("tmpfs", "tmpfs", "/missing/deep"));
  scenario.inside = [] { return mode_of("/there") + " " + mode_of("/missing/deep") + " " + mode_of("/missing"); };
  EXPECT_EQ(run(scenario).inside, "710 1777 755");
  mounts[mounts.size() - 2].options = {"mode=1500", "size=64k", "sync"};
  scenario.inside = [] { return mode_of("/there") + " " + mount_line("/there"); };
  const Outcome outcome = run(scenario);
  EXPECT_THAT(outcome.inside, HasSubstr("1500 "));
  EXPECT_THAT(outcome.inside, HasSubstr("rw,sync,size=64k"));
}

TEST_F(Rootfs, ReadonlyTmpfsStillGetsItsDevicesAndMounts) {
  Scenario scenario = usual();
  scenario.config().mounts[1].options.push_back("ro");
  scenario.inside = [] {
    return flags_of_mount("/dev") + " " + device_of("/dev/null") + " " + flags_of_mount("/dev/pts");
  };
  EXPECT_EQ(run(scenario).inside, "ro,nosuid c 1:3 rw,nosuid,noexec,relatime");
}

TEST_F(Rootfs, Tmpcopyup) {
  Scenario scenario = usual();
  scenario.prepare = [](const std::string& bundle) {
    make_directory(bundle + "/rootfs/d/sub", 0777);
    write(bundle + "/rootfs/d/f", "text");
    make_link("f", bundle + "/rootfs/d/l");
    if (lchown((bundle + "/rootfs/d/f").c_str(), 7, 8) != 0) _exit(9);
  };
  scenario.config().mounts.push_back(mount_of("tmpfs", "tmpfs", "/d", {"tmpcopyup", "ro"}));
  scenario.inside = [] {
    return list("/d") + " " + read("/d/f") + " " + owner_of("/d/f") + " " + mode_of("/d/sub") + " " +
           link_text("/d/l") + " " + flags_of_mount("/d");
  };
  EXPECT_EQ(run(scenario).inside, "f l sub text 7:8 777 f ro,relatime");
}

TEST_F(Rootfs, ABindOnTheRootReplacesIt) {
  Scenario scenario = usual();
  scenario.prepare = [](const std::string& bundle) { make_directory(bundle + "/other/here"); };
  scenario.config().mounts.insert(scenario.config().mounts.begin(), bind_of("other", "/"));
  scenario.inside = [] { return list("/") + " " + device_of("/dev/null"); };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "dev here proc sys c 1:3");
  scenario.config().mounts.front() = mount_of("tmpfs", "tmpfs", "/", {"tmpcopyup"});
  EXPECT_THAT(run(scenario).error, HasSubstr("tmpcopyup cannot be on /"));
}

// Sources that lie in the root itself are what the container has mounted there by then.
TEST_F(Rootfs, OrderAndSourcesWithinTheRootItself) {
  Scenario scenario = usual();
  scenario.prepare = [](const std::string& bundle) {
    for (const char* name : {"a/x", "b/y"}) {
      make_directory(bundle + "/" + name);
      write(bundle + "/" + name + "/file", name);
    }
    make_directory(bundle + "/rootfs/mnt");
  };
  auto& mounts = scenario.config().mounts;
  mounts.push_back(bind_of("a", "/mnt"));
  mounts.push_back(bind_of("b", "/mnt/x"));
  mounts.push_back(bind_of("rootfs/mnt/x", "/seen", {"rbind"}));
  mounts.push_back(bind_of("rootfs/mnt", "/all", {"rbind"}));
  scenario.inside = [] { return list("/mnt") + " " + read("/seen/y/file") + " " + read("/all/x/y/file"); };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "x b/y b/y");
}

TEST_F(Rootfs, SymlinksAsSourcesAndTargets) {
  Scenario scenario = usual();
  scenario.prepare = [](const std::string& bundle) {
    write(bundle + "/file", "content");
    make_link("file", bundle + "/link");
    make_link("point-to-nowhere", bundle + "/broken");
    make_link("nowhere", bundle + "/rootfs/target");
    make_link("nowhere2", bundle + "/rootfs/target2");
  };
  auto& mounts = scenario.config().mounts;
  mounts.push_back(bind_of("broken", "/a/sym/link", {"rbind", "copy-symlink"}));
  mounts.push_back(bind_of("link", "/target", {"bind", "src-nofollow", "dest-nofollow"}));
  mounts.push_back(bind_of("link", "/target2", {"bind", "dest-nofollow"}));
  scenario.inside = [] { return link_text("/a/sym/link") + " " + link_text("/target") + " " + read("/target2"); };
  Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "point-to-nowhere file content");
  mounts.push_back(bind_of("link", "/proc/self", {"bind", "src-nofollow", "dest-nofollow"}));
  EXPECT_THAT(run(scenario).error, HasSubstr("override of the mount destination is not allowed"));
  mounts.back() = bind_of("link", "/a/sym/link", {"bind", "copy-symlink"});
  EXPECT_THAT(run(scenario).error, HasSubstr("already exists with a different content"));
}

TEST_F(Rootfs, RemountChangesWhatIsThere) {
  Scenario scenario = usual();
  scenario.config().mounts.push_back(mount_of("", "", "/dev/shm", {"remount", "ro", "nosuid"}));
  scenario.inside = [] { return flags_of_mount("/dev/shm") + std::to_string(count_mounts("/dev/shm")); };
  EXPECT_EQ(run(scenario).inside, "ro,nosuid,relatime1");
}

TEST_F(Rootfs, OverlayOfTheConfig) {
  Scenario scenario = usual();
  scenario.prepare = [](const std::string& bundle) {
    for (const char* name : {"/l1", "/l2", "/u", "/w"}) make_directory(bundle + name);
    write(bundle + "/l1/one", "1");
    write(bundle + "/l2/two", "2");
    if (chdir(bundle.c_str()) != 0) _exit(9);
  };
  scenario.config().mounts.push_back(
      mount_of("overlay", "overlay", "/o", {"lowerdir=l1:l2", "upperdir=u", "workdir=w"}));
  scenario.inside = [] {
    const std::string before = list("/o");
    return words({before, write("/o/three", "3")});
  };
  scenario.afterwards = [](const std::string& bundle) { return list(bundle + "/u"); };
  Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "one two ok");
  EXPECT_EQ(outcome.host, "three");
  // Longer than fsconfig(2) takes in one string.
  std::string dots;
  for (int i = 0; i < 200; ++i) dots += "./";
  scenario.config().mounts.back().options = {"lowerdir=l1:" + dots + "l2", "upperdir=" + dots + "u",
                                             "workdir=" + dots + "w"};
  outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "one two ok");
}

TEST_F(Rootfs, AFileSystemsOwnWordsReachTheError) {
  Scenario scenario = usual();
  scenario.config().mounts.push_back(mount_of("tmpfs", "tmpfs", "/t", {"nosuch=1"}));
  EXPECT_THAT(run(scenario).error, HasSubstr("Unknown parameter 'nosuch'"));
  scenario.config().mounts.back() = mount_of("nosuchfs", "x", "/t");
  EXPECT_THAT(run(scenario).error, HasSubstr("mount nosuchfs on /t"));
  scenario.config().mounts.back() = mount_of("", "x", "/t");
  EXPECT_THAT(run(scenario).error, HasSubstr("neither a type nor bind"));
}

TEST_F(Rootfs, IdmappedBinds) {
  Scenario scenario = usual();
  scenario.prepare = [](const std::string& bundle) {
    make_directory(bundle + "/src");
    for (const auto& [name, id] : std::vector<std::pair<std::string, unsigned>>{{"zero", 0}, {"five", 5}}) {
      write(bundle + "/src/" + name, "x");
      if (lchown((bundle + "/src/" + name).c_str(), id, id) != 0) _exit(9);
    }
  };
  auto& mounts = scenario.config().mounts;
  mounts.push_back(bind_of("src", "/m", {"bind", "ro"}));
  mounts.back().uid_mappings = mounts.back().gid_mappings = {{0, 1000, 10}};
  mounts.push_back(bind_of("src", "/n", {"bind", "idmap=uids=0-1-1#5-70-1;gids=0-2-10"}));
  scenario.inside = [] { return owner_of("/m/zero") + " " + owner_of("/m/five") + " " + owner_of("/n/five"); };
  Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "1000:1000 1005:1005 70:7");

  scenario.user_namespace = true;
  scenario.config().linux.uid_mappings = scenario.config().linux.gid_mappings = {{0, 100000, 65536}};
  mounts.pop_back();
  mounts.back().uid_mappings = mounts.back().gid_mappings = {};
  mounts.back().options = {"bind", "idmap"};
  scenario.inside = [] { return owner_of("/m/zero") + " " + owner_of("/m/five"); };
  outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "0:0 5:5");
}

TEST_F(Rootfs, UserNamespaceHasDevicesProcAndUnreachableSources) {
  Scenario scenario = usual();
  scenario.user_namespace = true;
  scenario.config().linux.uid_mappings = scenario.config().linux.gid_mappings = {{0, 100000, 65536}};
  oci::Device device;
  device.type = 'b';
  device.path = "/dev/foo";
  device.major = 1;
  device.minor = 5;
  device.uid = 10;
  device.gid = 11;
  device.file_mode = 0157;
  scenario.config().linux.devices = {device};
  scenario.prepare = [](const std::string& bundle) {
    make_directory(bundle + "/closed/m");
    write(bundle + "/closed/m/f", "reached");
    make_directory(bundle + "/closed", 0);
  };
  scenario.config().mounts.push_back(bind_of("closed/m", "/data", {"bind", "ro"}));
  scenario.inside = [] {
    return read("/data/f") + "|" + device_of("/dev/null") + "|" + flags_of_mount("/dev/null") + "|" +
           write("/dev/null", "x") + "|" + owner_of("/dev/foo") + "|" + mode_of("/dev/foo") + "|" +
           link_text("/proc/self") + "|" + flags_of_mount("/sys");
  };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "reached|c 1:3|rw,nosuid,noexec,relatime|ok|10:11|157|1|ro,nosuid,nodev,noexec,relatime");
}

// An unprivileged caller can copy no mount: its child opens the sources again.
TEST_F(Rootfs, Rootless) {
  Scenario scenario = usual();
  scenario.rootless = true;
  scenario.prepare = [](const std::string& bundle) {
    make_directory(bundle + "/data", 0777);
    write(bundle + "/data/f", "text");
    write(bundle + "/file", "one");
    make_link("file", bundle + "/link");
  };
  auto& mounts = scenario.config().mounts;
  mounts.push_back(bind_of("data", "/data", {"rbind", "nosuid", "nodev"}));
  mounts.push_back(bind_of("link", "/file", {"bind", "ro"}));
  scenario.config().root.readonly = true;
  scenario.config().linux.masked_paths = {"/proc/timer_list", "/proc/acpi", "/data/f"};
  policy::Writable& writable = scenario.effective.writable.emplace();
  writable.size = 1 << 20;
  writable.empty = {"/tmp"};
  scenario.inside = [] {
    return words({flags_of_mount("/data"), write("/data/new", "x"), device_of("/data/f"), read("/file"),
                  write("/file", "x").substr(0, 8), device_of("/dev/null"), write("/dev/null", "x"),
                  write("/tmp/x", "x"), write("/x", "x").substr(0, 8)});
  };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "rw,nosuid,nodev,relatime ok c 1:3 one errno 30 c 1:3 ok ok errno 30");
  mounts.back().uid_mappings = mounts.back().gid_mappings = {{0, 1, 1}};
  EXPECT_NE(run(scenario).error, "");
}

TEST_F(Rootfs, DevptsGroupMustBeMapped) {
  Scenario scenario = usual();
  scenario.user_namespace = true;
  scenario.config().mounts[2].options.push_back("gid=5");
  scenario.config().linux.uid_mappings = scenario.config().linux.gid_mappings = {{0, 100000, 1}};
  EXPECT_THAT(run(scenario).error, HasSubstr("gid=5 is not mapped in the user namespace"));
}

TEST_F(Rootfs, TheWorkingDirectoryIsMade) {
  Scenario scenario = usual();
  scenario.config().process.emplace().cwd = "/work/here";
  scenario.inside = [] { return mode_of("/work/here"); };
  EXPECT_EQ(run(scenario).inside, "755");
}

// The image of a read-only root is not ours to change.
TEST_F(Rootfs, TheWorkingDirectoryIsNotMadeInAReadOnlyImage) {
  Scenario scenario = usual();
  scenario.config().process.emplace().cwd = "/work/here";
  scenario.config().root.readonly = true;
  scenario.inside = [] { return mode_of("/work"); };
  EXPECT_EQ(run(scenario).inside, "errno 2 No such file or directory");
}

TEST_F(Rootfs, AnExchangedRootIsRefused) {
  Scenario scenario = usual();
  scenario.effective.config.mounts.clear();
  RootRequest request;
  request.effective = &scenario.effective;
  const UniqueFd other(open("/usr", O_PATH | O_CLOEXEC));
  const pid_t pid = fork();
  if (pid == 0) {
    if (unshare(CLONE_NEWNS) != 0) _exit(9);
    request.rootfs = "/tmp";
    request.rootfs_fd = other.get();
    const auto built = build_root(request);
    _exit(!built && built.error().message().find("exchanged") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(Rootfs, AThousandMounts) {
  Scenario scenario = usual();
  scenario.prepare = [](const std::string& bundle) { make_directory(bundle + "/src"); };
  for (int i = 0; i < 1000; ++i) {
    scenario.config().mounts.push_back(bind_of("src", "/mnt/" + std::to_string(i), {"bind", "ro", "nosuid", "nodev"}));
  }
  const Outcome outcome = [&] {
    scenario.inside = [] {
      struct rlimit limit {};
      getrlimit(RLIMIT_NOFILE, &limit);
      return flags_of_mount("/mnt/999") + " " + std::to_string(limit.rlim_cur);
    };
    struct rlimit before {};
    getrlimit(RLIMIT_NOFILE, &before);
    const struct rlimit low { 1024, before.rlim_max };
    setrlimit(RLIMIT_NOFILE, &low);
    Outcome result = run(scenario);
    setrlimit(RLIMIT_NOFILE, &before);
    return result;
  }();
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "ro,nosuid,nodev,relatime 1024");
}

}  // namespace
}  // namespace agentrun::sandbox
