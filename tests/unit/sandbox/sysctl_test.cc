#include "sandbox/sysctl.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <string>

#include "forked.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

oci::Config config_with(const std::string& key, const std::string& value = "1") {
  oci::Config config;
  config.linux.namespaces = {
      {oci::NamespaceType::ipc, ""}, {oci::NamespaceType::uts, ""}, {oci::NamespaceType::network, ""}};
  config.linux.sysctl[key] = value;
  return config;
}

TEST(Sysctl, NamespacedOnesAreAllowed) {
  for (const char* key :
       {"kernel.msgmax", "kernel/shm_rmid_forced", "kernel.sem", "fs.mqueue.msg_max", "net.ipv4.ip_forward",
        "net.ipv4.conf.eth0/100.forwarding", "net/ipv4/conf/eth0.100/forwarding", "kernel.domainname"}) {
    const auto checked = check_sysctls(config_with(key));
    EXPECT_TRUE(checked.has_value()) << key << ": " << (checked ? "" : checked.error().message());
  }
}

TEST(Sysctl, OthersAreRefused) {
  EXPECT_EQ(check_sysctls(config_with("kernel.core_pattern")).error().message(),
            "sysctl `kernel.core_pattern` is not namespaced");
  for (const char* key : {"vm.swappiness", "kernel.msgmax2", "kernel.shm_next_id", "fs.file-max", "netx.a", "net",
                          "user.max", "kernel", "fs.mqueue", "kernel.sem.x"}) {
    EXPECT_FALSE(check_sysctls(config_with(key))) << key;
  }
  EXPECT_TRUE(check_sysctls(config_with("kernel.hostname")).error().message().find("conflicts") != std::string::npos);
}

// CVE-2022-0811 and its kin: what is one sysctl here and another one there.
TEST(Sysctl, NothingLeavesItsTree) {
  for (const char* key : {"net/../kernel/core_pattern", "net.ipv4...x", "/net/ipv4/ip_forward", "net//ipv4",
                          "net.ipv4.", "net.//.//kernel.core_pattern", "net.ipv4.ip_forward\n",
                          "net.a+kernel.core_pattern=x", "", ".", "net/./x", "net. x"}) {
    EXPECT_FALSE(check_sysctls(config_with(key))) << key;
  }
  EXPECT_FALSE(check_sysctls(config_with("net.ipv4.ip_forward", "1\nkernel.core_pattern=|/x")));
  EXPECT_FALSE(check_sysctls(config_with("net.ipv4.ip_forward", std::string("1\0", 2))));
  EXPECT_TRUE(check_sysctls(config_with("kernel.sem", "250\t32000 32 128")));
}

TEST(Sysctl, OnlyOfANamespaceOfItsOwn) {
  auto config = config_with("net.ipv4.ip_forward");
  config.linux.namespaces = {{oci::NamespaceType::ipc, ""}};
  EXPECT_EQ(check_sysctls(config).error().message(),
            "sysctl `net.ipv4.ip_forward` is not allowed in the host's network namespace");
  config.linux.namespaces = {{oci::NamespaceType::network, "/proc/self/ns/net"}};
  EXPECT_FALSE(check_sysctls(config));
  config.linux.namespaces = {{oci::NamespaceType::network, "/no/such/namespace"}};
  EXPECT_FALSE(check_sysctls(config));
}

TEST(Sysctl, WritesInItsOwnNamespaces) {
  if (geteuid() != 0) GTEST_SKIP() << "root is missing";
  const std::string before = *sys::read_file("/proc/sys/kernel/msgmax");
  EXPECT_EQ(0, test::in_child([] {
              if (unshare(CLONE_NEWIPC | CLONE_NEWNET) != 0) return 119;
              const auto procfs = sys::open("/proc", O_PATH | O_DIRECTORY);
              const auto written =
                  write_sysctls(procfs->get(), {{"kernel.msgmax", "4321"}, {"net.ipv4.conf.lo.forwarding", "1"}});
              if (!written) return test::report(written);
              if (*sys::read_file("/proc/sys/net/ipv4/conf/lo/forwarding") != "1\n") return 2;
              return *sys::read_file("/proc/sys/kernel/msgmax") == "4321\n" ? 0 : 3;
            }));
  EXPECT_EQ(*sys::read_file("/proc/sys/kernel/msgmax"), before);
}

// CVE-2025-52881: something else lies where procfs should be.
TEST(Sysctl, AFalseProcfsIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "root is missing";
  EXPECT_EQ(0, test::in_child([] {
              if (unshare(CLONE_NEWNS | CLONE_NEWIPC) != 0 ||
                  mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
                return 119;
              }
              const auto tmp = sys::open("/tmp", O_PATH | O_DIRECTORY);
              const auto not_procfs = write_sysctls(tmp->get(), {{"kernel.msgmax", "1"}});
              if (not_procfs || not_procfs.error().reason != "not on a procfs") return 2;
              // And a tmpfs over a part of a true one.
              const auto procfs = sys::open("/proc", O_PATH | O_DIRECTORY);
              if (mount("tmpfs", "/proc/sys", "tmpfs", 0, nullptr) != 0) return 118;
              if (mkdir("/proc/sys/kernel", 0755) != 0 || close(creat("/proc/sys/kernel/msgmax", 0644)) != 0)
                return 117;
              const auto covered = write_sysctls(procfs->get(), {{"kernel.msgmax", "1"}});
              return !covered && covered.error().code == EXDEV ? 0 : 3;
            }));
}

}  // namespace
}  // namespace agentrun::sandbox
