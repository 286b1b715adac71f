#include "sandbox/network.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "forked.h"

namespace agentrun::sandbox {
namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool loopback_answers() {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool sent = sendto(fd, "x", 1, 0, reinterpret_cast<sockaddr*>(&address), sizeof address) == 1;
  close(fd);
  return sent;
}

class NetworkTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "root is missing";
  }
};

TEST_F(NetworkTest, LoopbackComesUp) {
  EXPECT_EQ(0, test::in_child([] {
              if (unshare(CLONE_NEWNET) != 0) return 119;
              if (loopback_answers()) return 2;
              if (const int failed = test::report(loopback_up()); failed != 0) return failed;
              return loopback_answers() ? 0 : 3;
            }));
}

TEST_F(NetworkTest, AnEmptyNamespaceIsLeftAlone) {
  EXPECT_EQ(0, test::in_child([] {
              if (unshare(CLONE_NEWNET) != 0) return 119;
              const auto names = interfaces();
              if (!names || !has(*names, "lo")) return 2;
              const auto replaced = ensure_empty_network();
              return replaced && !*replaced ? 0 : 3;
            }));
}

// An interface without an address is not in the answer of SIOCGIFCONF, and is a way out all the same.
TEST_F(NetworkTest, AnInterfaceWithoutAddressIsSeenAndLeftBehind) {
  EXPECT_EQ(
      0, test::in_child([] {
        if (unshare(CLONE_NEWNET) != 0) return 119;
        if (std::system("ip link add plug0 type veth peer name plug1 2>/dev/null || "
                        "ip link add plug0 type dummy 2>/dev/null || ip tuntap add plug0 mode tap 2>/dev/null") != 0) {
          return 118;
        }
        const auto before = interfaces();
        if (!before || !has(*before, "plug0")) return 2;
        const auto replaced = ensure_empty_network();
        if (!replaced || !*replaced) return 3;
        const auto after = interfaces();
        if (!after || has(*after, "plug0")) return 4;
        return loopback_answers() ? 0 : 5;
      }));
}

}  // namespace
}  // namespace agentrun::sandbox
