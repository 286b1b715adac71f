#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cgroup_fixture.h"
#include "sandbox/cgroup_control.h"
#include "sandbox/cgroup_tree.h"

// v2 alone and v1 alone, in a mount namespace that shows only the one.
namespace agentrun::sandbox {
namespace {

using namespace testing_;

bool show_v2_alone() {
  return mount("none", "/sys/fs/cgroup", "tmpfs", 0, nullptr) == 0 &&
         mount("none", "/sys/fs/cgroup", "cgroup2", 0, nullptr) == 0;
}

bool show_v1_alone() {
  const auto layout = find_layout();
  if (!layout || layout->v1_with("freezer") == nullptr) return false;
  return !layout->v2 || umount2(layout->v2->mount.c_str(), MNT_DETACH) == 0;
}

void on_v2(const std::function<void()>& body) { in_mount_namespace(show_v2_alone, body); }
void on_v1(const std::function<void()>& body) { in_mount_namespace(show_v1_alone, body); }

class CgroupAlone : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_root()) GTEST_SKIP() << "needs root";
  }
};

TEST_F(CgroupAlone, V2IsFoundAndItsCloneTargetWorks) {
  on_v2([] {
    EXPECT_TRUE(available_controllers(CgroupManager::cgroupfs)->unified);
    Made made;
    ASSERT_TRUE(make(made, "clone"));
    EXPECT_TRUE(made.location.v1.empty());
    const auto target = clone_target(made.location);
    ASSERT_TRUE(target && target->valid()) << why(target);
    auto cloned = sys::clone_process(0, target->get());
    ASSERT_TRUE(cloned) << why(cloned);
    if (cloned->pid == 0) {
      while (true) pause();
    }
    ASSERT_TRUE(attach_process(made.location, made.request, cloned->pid, true, nullptr));
    EXPECT_EQ(*cgroup_processes(made.location), std::vector<pid_t>{cloned->pid});
    EXPECT_TRUE(*kill_cgroup(made.location, 5'000'000));
    EXPECT_EQ(waitpid(cloned->pid, nullptr, 0), cloned->pid);
    EXPECT_TRUE(remove_cgroup(made.location));
  });
}

TEST_F(CgroupAlone, V2FreezeKillAndWatch) {
  on_v2([] {
    Made made;
    ASSERT_TRUE(make(made, "kill"));
    Child child;
    ASSERT_TRUE(attach_process(made.location, made.request, child.pid(), false, nullptr));
    const auto watch = watch_populated(made.location);
    ASSERT_TRUE(watch && watch->valid());
    pollfd waited{watch->get(), POLLPRI, 0};
    EXPECT_EQ(poll(&waited, 1, 0), 0);
    ASSERT_TRUE(freeze_cgroup(made.location));
    EXPECT_TRUE(*is_frozen(made.location));
    EXPECT_TRUE(*kill_cgroup(made.location, 5'000'000));
    // The kernel holds a second notification back for 10 ms.
    EXPECT_EQ(poll(&waited, 1, 5000), 1);
    EXPECT_TRUE(WIFSIGNALED(child.wait()));
  });
}

TEST_F(CgroupAlone, V2DeviceProgramHoldsAndIsReplaced) {
  on_v2([] {
    Made made;
    ASSERT_TRUE(make(made, "devices"));
    const auto opens = [&](const char* path, int flags) {
      Gate gate;
      Child child([&] {
        gate.pass();
        return open(path, flags | O_CLOEXEC) >= 0 ? 0 : errno;
      });
      EXPECT_TRUE(join_cgroup(made.location, child.pid(), false));
      gate.open();
      return WEXITSTATUS(child.wait());
    };
    EXPECT_EQ(opens("/dev/null", O_RDWR), 0);
    EXPECT_EQ(opens("/dev/kmsg", O_RDONLY), EPERM);
    oci::Resources resources;
    resources.devices = {{true, 'a', {}, {}, "rwm"}, {false, 'c', 1, 11, "w"}};
    const auto updated = update_cgroup(made.location, resources);
    ASSERT_TRUE(updated) << why(updated);
    EXPECT_EQ(opens("/dev/kmsg", O_RDONLY), 0);
    EXPECT_EQ(opens("/dev/kmsg", O_RDWR), EPERM);
    resources.devices = {{false, 'a', {}, {}, "rwm"}};
    ASSERT_TRUE(update_cgroup(made.location, resources));
    EXPECT_EQ(opens("/dev/kmsg", O_RDONLY), EPERM);
  });
}

TEST_F(CgroupAlone, V2AControllerThatIsNotThereIsNamed) {
  on_v2([] {
    if (available_controllers(CgroupManager::cgroupfs)->memory) return;
    oci::Resources resources;
    resources.memory.emplace();
    resources.memory->limit = 1 << 20;
    Made made;
    made.request = request_for("memory");
    made.location = *plan_cgroup(made.request);
    const auto created = create_cgroup(made.location, made.request, &resources);
    ASSERT_FALSE(created);
    EXPECT_NE(created.error().message().find("controller `memory` is not available"), std::string::npos)
        << why(created);
    EXPECT_NE(access(made.location.v2.c_str(), F_OK), 0);
  });
}

TEST_F(CgroupAlone, V2HandsControllersDownAndExplainsWhyNot) {
  on_v2([] {
    if (!available_controllers(CgroupManager::cgroupfs)->hugetlb) return;
    struct stat status {};
    const bool huge = stat("/sys/kernel/mm/hugepages/hugepages-2048kB", &status) == 0;
    oci::Resources resources;
    resources.hugepage_limits.push_back({huge ? "2MB" : "1GB", 2u << 20});
    {
      Made made;
      ASSERT_TRUE(make(made, "deep/er", &resources));
      EXPECT_EQ(content(made.location.v2 + "/hugetlb." + resources.hugepage_limits[0].page_size + ".max"), "2097152");
      oci::Resources unified;
      unified.unified["hugetlb.2MB.max"] = "4194304";
      ASSERT_TRUE(update_cgroup(made.location, unified));
      EXPECT_EQ(content(made.location.v2 + "/hugetlb.2MB.max"), "4194304");
      unified.unified["hugetlb.3MB.max"] = "1";
      const auto refused = update_cgroup(made.location, unified);
      ASSERT_FALSE(refused);
      EXPECT_NE(refused.error().message().find("hugetlb.3MB.max"), std::string::npos);
    }
    const std::string parent = "/sys/fs/cgroup" + test_root();
    ASSERT_EQ(mkdir(parent.c_str(), 0755), 0);
    {
      Child child;
      ASSERT_TRUE(sys::write_file(parent + "/cgroup.procs", std::to_string(child.pid())));
      Made made;
      made.request = request_for("below");
      made.location = *plan_cgroup(made.request);
      const auto created = create_cgroup(made.location, made.request, &resources);
      ASSERT_FALSE(created);
      EXPECT_NE(created.error().message().find("has processes of its own"), std::string::npos) << why(created);
    }
    EXPECT_EQ(rmdir(parent.c_str()), 0);
  });
}

TEST_F(CgroupAlone, V2RefusesAThreadedParent) {
  on_v2([] {
    const std::string parent = "/sys/fs/cgroup" + test_root();
    ASSERT_EQ(mkdir(parent.c_str(), 0755), 0);
    ASSERT_EQ(mkdir((parent + "/threads").c_str(), 0755), 0);
    ASSERT_TRUE(sys::write_file(parent + "/threads/cgroup.type", "threaded"));
    Made made;
    made.request = request_for("threads/x");
    made.location = *plan_cgroup(made.request);
    const auto created = create_cgroup(made.location, made.request, nullptr);
    ASSERT_FALSE(created);
    EXPECT_NE(created.error().message().find("threaded"), std::string::npos) << why(created);
    EXPECT_EQ(rmdir((parent + "/threads").c_str()), 0);
    EXPECT_EQ(rmdir(parent.c_str()), 0);
  });
}

TEST_F(CgroupAlone, V2ExecHasAChildOfItsOwn) {
  on_v2([] {
    Made made;
    ASSERT_TRUE(make(made, "exec"));
    Child init, other;
    ASSERT_TRUE(join_cgroup(made.location, init.pid(), false));
    auto child = child_cgroup(made.location, "exec-1");
    ASSERT_TRUE(child) << why(child);
    ASSERT_NE(child->v2, made.location.v2);
    ASSERT_TRUE(create_cgroup(*child, made.request, nullptr));
    ASSERT_TRUE(join_cgroup(*child, other.pid(), false));
    EXPECT_TRUE(*kill_cgroup(*child, 5'000'000));
    EXPECT_TRUE(WIFSIGNALED(other.wait()));
    EXPECT_EQ(waitpid(init.pid(), nullptr, WNOHANG), 0);
    EXPECT_TRUE(remove_cgroup(*child));
    EXPECT_EQ(access(made.location.v2.c_str(), F_OK), 0);
    EXPECT_FALSE(child_cgroup(made.location, "../x"));
    EXPECT_EQ(child_cgroup(made.location, "/")->v2, made.location.v2);
    ASSERT_EQ(chown(made.location.v2.c_str(), 12345, 12345), 0);
    EXPECT_EQ(child_cgroup(made.location, "exec-2")->v2, made.location.v2);
  });
}

// A container to which its cgroup was delegated nests deeper than a path can be.
TEST_F(CgroupAlone, V2RemovesWhatIsDeeperThanAPath) {
  on_v2([] {
    Made made;
    ASSERT_TRUE(make(made, "deep"));
    const std::string name(250, 'd');
    UniqueFd here(open(made.location.v2.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int depth = 0;
    for (; depth < 40; ++depth) {
      if (mkdirat(here.get(), name.c_str(), 0755) != 0) break;
      here.reset(openat(here.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    here.reset();
    EXPECT_GT(depth, 10);
    const auto removed = remove_cgroup(made.location);
    EXPECT_TRUE(removed) << why(removed);
  });
}

TEST_F(CgroupAlone, V1IsFoundAndHasNoCloneTarget) {
  on_v1([] {
    Made made;
    ASSERT_TRUE(make(made, "v1"));
    EXPECT_TRUE(made.location.v2.empty());
    EXPECT_NE(made.location.inode, 0u);
    EXPECT_FALSE(clone_target(made.location)->valid());
    EXPECT_FALSE(watch_populated(made.location)->valid());
    Child child;
    ASSERT_TRUE(attach_process(made.location, made.request, child.pid(), false, nullptr));
    EXPECT_EQ(*cgroup_processes(made.location), std::vector<pid_t>{child.pid()});
    ASSERT_TRUE(freeze_cgroup(made.location));
    EXPECT_TRUE(*is_frozen(made.location));
    EXPECT_EQ(content(v1_directory(made.location, "freezer") + "/freezer.state"), "FROZEN");
    ASSERT_TRUE(thaw_cgroup(made.location));
    EXPECT_EQ(content(v1_directory(made.location, "freezer") + "/freezer.state"), "THAWED");
    EXPECT_EQ(child_cgroup(made.location, "x")->v1, made.location.v1);
    EXPECT_TRUE(*kill_cgroup(made.location, 5'000'000));
    EXPECT_TRUE(WIFSIGNALED(child.wait()));
    const auto removed = remove_cgroup(made.location);
    EXPECT_TRUE(removed) << why(removed);
    for (const auto& [name, directory] : made.location.v1) EXPECT_NE(access(directory.c_str(), F_OK), 0) << directory;
  });
}

TEST_F(CgroupAlone, V1KillsFrozenOnesAndThatKeepForking) {
  on_v1([] {
    oci::Resources resources;
    resources.pids_limit = 40;
    Made made;
    ASSERT_TRUE(make(made, "forkers", &resources));
    Gate gate;
    Child child([&] {
      gate.pass();
      signal(SIGCHLD, SIG_IGN);
      while (true) fork();
      return 0;
    });
    ASSERT_TRUE(attach_process(made.location, made.request, child.pid(), false, &resources));
    gate.open();
    while (cgroup_processes(made.location)->size() < 30) poll(nullptr, 0, 1);
    ASSERT_TRUE(freeze_cgroup(made.location));
    EXPECT_TRUE(*kill_cgroup(made.location, 10'000'000));
    child.wait();
    const auto removed = remove_cgroup(made.location);
    EXPECT_TRUE(removed) << why(removed);
  });
}

TEST_F(CgroupAlone, V1RemovalWaitsForTheLastProcess) {
  on_v1([] {
    Made made;
    ASSERT_TRUE(make(made, "waits"));
    Child child([] {
      poll(nullptr, 0, 300);
      return 0;
    });
    ASSERT_TRUE(attach_process(made.location, made.request, child.pid(), false, nullptr));
    const auto removed = remove_cgroup(made.location);
    EXPECT_TRUE(removed) << why(removed);
    EXPECT_TRUE(WIFEXITED(child.wait()));
  });
}

TEST_F(CgroupAlone, NoHierarchyIsAnErrorThatSaysSo) {
  in_mount_namespace([] { return mount("none", "/sys/fs/cgroup", "tmpfs", 0, nullptr) == 0; },
                     [] {
                       const auto planned = plan_cgroup(request_for("none"));
                       ASSERT_FALSE(planned);
                       EXPECT_NE(planned.error().message().find("none is mounted"), std::string::npos) << why(planned);
                     });
}

}  // namespace
}  // namespace agentrun::sandbox
