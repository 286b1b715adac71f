#include "sandbox/cgroup_systemd.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "cgroup_fixture.h"
#include "sandbox/cgroup_control.h"
#include "sandbox/cgroup_v1.h"

// With a helper of the test's own in the place of agentrun-systemd: a shell script that logs what it is asked and
// answers from a file.
namespace agentrun::sandbox {
namespace {

using namespace testing_;

class FakeHelper {
 public:
  FakeHelper() {
    char place[] = "/tmp/agentrun-helper-XXXXXX";
    directory_ = mkdtemp(place);
    std::ofstream(directory_ + "/helper") << "#!/bin/sh\n"
                                             "echo \"$1\" >>" +
                                                 directory_ +
                                                 "/log\n"
                                                 "while read -r line; do echo \"$line\" >>" +
                                                 directory_ +
                                                 "/log\n"
                                                 "[ \"$line\" = go ] && cat " +
                                                 directory_ + "/answer; done\nexit 0\n";
    chmod((directory_ + "/helper").c_str(), 0755);
    set_systemd_helper(directory_ + "/helper");
  }
  ~FakeHelper() {
    for (const char* name : {"/helper", "/log", "/answer"}) unlink((directory_ + name).c_str());
    rmdir(directory_.c_str());
  }
  void answer(const std::string& text) const { std::ofstream(directory_ + "/answer") << text; }
  std::string log() const { return content(directory_ + "/log"); }
  std::string path() const { return directory_ + "/helper"; }

 private:
  std::string directory_;
};

bool pretend_systemd() {
  return mount("none", "/run", "tmpfs", 0, nullptr) == 0 && mkdir("/run/systemd", 0755) == 0 &&
         mkdir("/run/systemd/system", 0755) == 0;
}

class Systemd : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_root()) GTEST_SKIP() << "needs root";
  }
};

CgroupRequest scope_of(const std::string& path) {
  CgroupRequest request;
  request.id = "abc";
  request.manager = CgroupManager::systemd;
  request.cgroups_path = path;
  return request;
}

TEST_F(Systemd, IsRefusedWhereItIsNot) {
  in_mount_namespace([] { return mount("none", "/run", "tmpfs", 0, nullptr) == 0; },
                     [] {
                       const auto planned = plan_cgroup(scope_of(""));
                       ASSERT_FALSE(planned);
                       EXPECT_NE(planned.error().message().find("systemd does not run this host"), std::string::npos);
                     });
}

TEST_F(Systemd, IsRefusedWithoutItsHelper) {
  in_mount_namespace(pretend_systemd, [] {
    set_systemd_helper("/nonexistent/agentrun-systemd");
    const auto planned = plan_cgroup(scope_of(""));
    ASSERT_FALSE(planned);
    EXPECT_NE(planned.error().message().find("/nonexistent/agentrun-systemd"), std::string::npos);
  });
}

TEST_F(Systemd, StartsAScopeAndStopsIt) {
  in_mount_namespace(pretend_systemd, [] {
    const FakeHelper helper;
    const std::string slice = "agentruntest" + std::to_string(getpid());
    CgroupRequest request = scope_of(slice + ".slice:libpod:x");
    request.deadline_us = 7'000'000;
    auto planned = plan_cgroup(request);
    ASSERT_TRUE(planned) << why(planned);
    CgroupLocation location = *planned;
    EXPECT_EQ(location.unit, "libpod-x.scope");
    const std::string path = "/" + slice + ".slice/libpod-x.scope";
    EXPECT_TRUE(location.v2.empty() || location.v2.ends_with(path)) << location.v2;

    oci::Resources resources;
    resources.pids_limit = 9;
    ASSERT_TRUE(create_cgroup(location, request, &resources));
    EXPECT_FALSE(clone_target(location)->valid());
    Child child;
    helper.answer("ok =" + path + "\n");
    // The scope that systemd would have made, in each hierarchy.
    std::vector<std::string> made;
    if (!location.v2.empty()) made = {location.v2.substr(0, location.v2.rfind('/')), location.v2};
    for (const std::string& directory : made) ASSERT_EQ(mkdir(directory.c_str(), 0755), 0);
    if (!location.v2.empty()) {
      ASSERT_TRUE(sys::write_file(location.v2 + "/cgroup.procs", std::to_string(child.pid())));
    }
    const auto attached = attach_process(location, request, child.pid(), false, &resources);
    ASSERT_TRUE(attached) << why(attached);
    EXPECT_NE(location.inode, 0u);
    EXPECT_NE(helper.log().find("start =libpod-x.scope\n"), std::string::npos) << helper.log();
    EXPECT_NE(helper.log().find("property PIDs au =" + std::to_string(child.pid())), std::string::npos);
    EXPECT_NE(helper.log().find("property RuntimeMaxUSec t =7000000"), std::string::npos);
    EXPECT_NE(helper.log().find("property TasksMax t =9"), std::string::npos);
    EXPECT_TRUE(helper.log().starts_with("system\n"));
    EXPECT_EQ(*cgroup_processes(location), std::vector<pid_t>{child.pid()});

    helper.answer("ok =\n");
    resources.pids_limit = 8;
    ASSERT_TRUE(update_cgroup(location, resources));
    EXPECT_NE(helper.log().find("set =libpod-x.scope\nproperty TasksMax t =8\ngo"), std::string::npos);
    EXPECT_TRUE(*kill_cgroup(location, 5'000'000));
    const auto removed = remove_cgroup(location);
    EXPECT_TRUE(removed) << why(removed);
    EXPECT_NE(helper.log().find("stop =libpod-x.scope\ngo"), std::string::npos);
    EXPECT_TRUE(made.empty() || rmdir(made[0].c_str()) == 0);
  });
}

// A manager that is not at the root of the hierarchy says where its unit really is.
TEST_F(Systemd, FollowsWhereSystemdPutTheScope) {
  in_mount_namespace(pretend_systemd, [] {
    const FakeHelper helper;
    CgroupRequest request = scope_of("::x");
    CgroupLocation location = *plan_cgroup(request);
    const std::string path = test_root() + "/elsewhere.scope";
    helper.answer("ok =" + path + "\n");
    const auto layout = find_layout();
    ASSERT_TRUE(layout);
    std::vector<std::string> mounts;
    if (layout->v2) mounts.push_back(layout->v2->mount);
    for (const Hierarchy& place : layout->v1) mounts.push_back(place.mount);
    for (const std::string& mount : mounts) {
      ASSERT_TRUE(make_v1({}, mount + test_root(), mount.ends_with("/cpuset")));
    }
    Child child;
    const auto attached = attach_process(location, request, child.pid(), false, nullptr);
    EXPECT_TRUE(attached) << why(attached);
    EXPECT_TRUE(main_directory(location).ends_with(path)) << main_directory(location);
    EXPECT_TRUE(*kill_cgroup(location, 5'000'000));
    helper.answer("ok =\n");
    const auto removed = remove_cgroup(location);
    EXPECT_TRUE(removed) << why(removed);
    for (const std::string& mount : mounts) EXPECT_EQ(rmdir((mount + test_root()).c_str()), 0) << mount;
  });
}

TEST_F(Systemd, SaysWhySystemdRefused) {
  in_mount_namespace(pretend_systemd, [] {
    const FakeHelper helper;
    CgroupRequest request = scope_of("");
    CgroupLocation location = *plan_cgroup(request);
    helper.answer("error =unit%20exists\n");
    Child child;
    const auto refused = attach_process(location, request, child.pid(), false, nullptr);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(), "ask systemd: unit exists");
    helper.answer("what\n");
    EXPECT_FALSE(attach_process(location, request, child.pid(), false, nullptr));
    request.annotations["org.systemd.property.Slice"] = "'-.slice'";
    EXPECT_FALSE(create_cgroup(location, request, nullptr));
  });
}

TEST_F(Systemd, AHelperThatDiesIsAnError) {
  in_mount_namespace(pretend_systemd, [] {
    set_systemd_helper("/bin/true");
    CgroupRequest request = scope_of("");
    CgroupLocation location = *plan_cgroup(request);
    Child child;
    const auto refused = attach_process(location, request, child.pid(), false, nullptr);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("/bin/true"), std::string::npos) << why(refused);
  });
}

}  // namespace
}  // namespace agentrun::sandbox
