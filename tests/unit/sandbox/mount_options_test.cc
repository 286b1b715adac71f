#include "sandbox/mount_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include <cerrno>

namespace agentrun::sandbox {
namespace {

oci::Mount bind(std::vector<std::string> options) {
  oci::Mount mount;
  mount.destination = "/d";
  mount.source = "/s";
  mount.options = std::move(options);
  return mount;
}

oci::Mount of_type(const std::string& type, std::vector<std::string> options) {
  oci::Mount mount = bind(std::move(options));
  mount.type = type;
  return mount;
}

MountOptions parse(const oci::Mount& mount, const oci::Linux& container = {}) {
  auto parsed = parse_mount_options(mount, container);
  EXPECT_TRUE(parsed) << parsed.error().message();
  return parsed ? *parsed : MountOptions();
}

std::string parse_error(const oci::Mount& mount, const oci::Linux& container = {}) {
  const auto parsed = parse_mount_options(mount, container);
  return parsed ? "accepted" : parsed.error().message();
}

TEST(MountOptions, KnowsWhatIsABind) {
  EXPECT_TRUE(is_bind(bind({"bind"})));
  EXPECT_TRUE(is_bind(bind({"ro", "rbind"})));
  EXPECT_TRUE(is_bind(of_type("bind", {})));
  EXPECT_FALSE(is_bind(of_type("tmpfs", {"ro"})));
  EXPECT_TRUE(parse(of_type("none", {"bind", "rbind"})).recursive);
  EXPECT_TRUE(parse(of_type("none", {"rbind", "rw", "bind"})).recursive);
}

TEST(MountOptions, TakesEveryFlagOfTheSpecification) {
  const MountOptions all = parse(of_type("tmpfs", {"ro", "nosuid", "nodev", "noexec", "nosymfollow", "noatime"}));
  EXPECT_EQ(all.set, std::uint64_t{MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
                                   MOUNT_ATTR_NOSYMFOLLOW});
  EXPECT_EQ(new_mount_attributes(all), all.set | MOUNT_ATTR_NOATIME);
  EXPECT_TRUE(all.data.empty());
}

TEST(MountOptions, TheLaterOptionWins) {
  EXPECT_EQ(parse(bind({"bind", "ro", "rw"})).set, 0U);
  EXPECT_EQ(parse(bind({"bind", "ro", "rw"})).cleared, std::uint64_t{MOUNT_ATTR_RDONLY});
  EXPECT_EQ(parse(bind({"bind", "rw", "ro"})).set, std::uint64_t{MOUNT_ATTR_RDONLY});
  EXPECT_EQ(parse(bind({"bind", "rro", "rrw"})).recursive_set, 0U);
  EXPECT_EQ(parse(bind({"bind", "rrw", "rro"})).recursive_set, std::uint64_t{MOUNT_ATTR_RDONLY});
  EXPECT_EQ(parse(bind({"bind", "noatime", "strictatime"})).atime.mode, std::uint64_t{MOUNT_ATTR_STRICTATIME});
}

TEST(MountOptions, RecursiveAccessTimeIsAFieldNotBits) {
  const MountOptions both = parse(bind({"rbind", "rnoatime", "rstrictatime"}));
  EXPECT_EQ(both.recursive_set, std::uint64_t{MOUNT_ATTR_STRICTATIME});
  EXPECT_EQ(both.recursive_clear, std::uint64_t{MOUNT_ATTR__ATIME});
  const MountOptions plain = parse(bind({"rbind", "rnoatime", "ratime", "rnodiratime"}));
  EXPECT_EQ(plain.recursive_set, std::uint64_t{MOUNT_ATTR_NODIRATIME});
}

TEST(MountOptions, UnknownOptionsOfABindAreRefused) {
  EXPECT_THAT(parse_error(bind({"bind", "nosiud"})), ::testing::HasSubstr("unknown option nosiud"));
  EXPECT_THAT(parse_error(bind({"bind", "size=1m"})), ::testing::HasSubstr("unknown option size=1m"));
  EXPECT_THAT(parse_error(bind({"bind", "sync"})), ::testing::HasSubstr("a bind mount cannot have its own"));
}

TEST(MountOptions, UnknownOptionsOfAFileSystemAreItsOwn) {
  const MountOptions options =
      parse(of_type("tmpfs", {"size=64k", "mode=1777", "huge", "sync", "defaults", "iversion"}));
  ASSERT_EQ(options.data.size(), 4U);
  EXPECT_EQ(options.data[0].key, "size");
  EXPECT_EQ(options.data[0].value, "64k");
  EXPECT_TRUE(options.data[2].flag);
  EXPECT_EQ(options.data[3].key, "sync");
}

TEST(MountOptions, EveryKnownOptionParsesSomewhere) {
  oci::Linux container;
  container.uid_mappings = container.gid_mappings = {{0, 1000, 10}};
  for (const std::string& word : known_mount_options()) {
    const bool superblock = word == "sync" || word == "dirsync" || word == "mand" || word == "lazytime";
    const oci::Mount mount = superblock || word == "tmpcopyup" ? of_type("tmpfs", {word}) : bind({"bind", word});
    const MountOptions options = parse(mount, container);
    EXPECT_EQ(options.data.size(), superblock ? 1U : 0U) << word;
  }
}

TEST(MountOptions, Propagation) {
  EXPECT_EQ(parse(bind({"bind", "rslave"})).propagation, std::uint64_t{MS_SLAVE});
  EXPECT_TRUE(parse(bind({"bind", "rslave"})).propagation_recursive);
  EXPECT_FALSE(parse(bind({"bind", "private"})).propagation_recursive);
  EXPECT_EQ(propagation_of("ro"), 0U);
}

TEST(MountOptions, BindWithoutAnyFlagKeepsTheSourcesFlags) {
  const auto change = bind_attributes(parse(bind({"bind"})), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC, false);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->set | change->clear, 0U);
}

TEST(MountOptions, BindWithAFlagClearsTheOthersButTheAccessTime) {
  const auto change = bind_attributes(parse(bind({"bind", "dev"})), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODIRATIME, false);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->set, 0U);
  EXPECT_NE(change->clear & MOUNT_ATTR_RDONLY, 0U);
  EXPECT_EQ(change->clear & (MOUNT_ATTR__ATIME | MOUNT_ATTR_NODIRATIME), 0U);
}

TEST(MountOptions, LockedFlagsStayAndCannotBeCleared) {
  const std::uint64_t source = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOSYMFOLLOW | MOUNT_ATTR_NOATIME;
  const auto kept = bind_attributes(parse(bind({"bind", "nodev"})), source, true);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->clear & (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID), 0U);
  EXPECT_NE(kept->clear & MOUNT_ATTR_NOSYMFOLLOW, 0U);
  for (const char* word : {"rw", "suid", "relatime", "strictatime", "nodiratime"}) {
    const auto refused = bind_attributes(parse(bind({"bind", word})), source, true);
    ASSERT_FALSE(refused) << word;
    EXPECT_EQ(refused.error().code, EPERM);
  }
  EXPECT_TRUE(bind_attributes(parse(bind({"bind", "atime", "norelatime", "noatime"})), source, true));
}

TEST(MountOptions, TheLaterOfTwoAccessTimeOptionsWins) {
  const AtimeChoice taken_back = parse(bind({"bind", "noatime", "nodiratime", "atime", "diratime"})).atime;
  EXPECT_FALSE(taken_back.given());
  EXPECT_EQ(taken_back.mode, std::uint64_t{MOUNT_ATTR_RELATIME});
  EXPECT_EQ(parse(bind({"bind", "strictatime", "atime"})).atime.mode, std::uint64_t{MOUNT_ATTR_STRICTATIME});
  EXPECT_EQ(parse(bind({"bind", "atime", "noatime"})).atime.mode, std::uint64_t{MOUNT_ATTR_NOATIME});
}

TEST(MountOptions, NodiratimeImpliesRelatime) {
  const auto change = bind_attributes(parse(bind({"bind", "nodiratime"})), MOUNT_ATTR_NOATIME, false);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->set, std::uint64_t{MOUNT_ATTR_NODIRATIME});
  EXPECT_NE(change->clear & MOUNT_ATTR__ATIME, 0U);
}

TEST(MountOptions, IdmapOfTheMountItself) {
  oci::Mount mount = bind({"bind", "ridmap"});
  mount.uid_mappings = {{0, 1, 10}};
  EXPECT_THAT(parse_error(mount), ::testing::HasSubstr("must come together"));
  mount.gid_mappings = {{0, 2, 10}};
  const MountOptions options = parse(mount);
  EXPECT_TRUE(options.idmap && options.idmap_recursive);
  EXPECT_EQ(options.idmap_gids[0].host_id, 2U);
  mount.options = {"ro"};
  mount.type = "tmpfs";
  EXPECT_THAT(parse_error(mount), ::testing::HasSubstr("only bind mounts"));
}

TEST(MountOptions, IdmapTakesTheContainersMapsOrIsRefused) {
  EXPECT_THAT(parse_error(bind({"bind", "idmap"})), ::testing::HasSubstr("needs a user namespace"));
  oci::Linux container;
  container.uid_mappings = {{0, 1000, 10}};
  container.gid_mappings = {{0, 2000, 10}};
  EXPECT_EQ(parse(bind({"bind", "idmap"}), container).idmap_gids[0].host_id, 2000U);
  oci::Linux joined;
  joined.namespaces = {{oci::NamespaceType::user, "/proc/1/ns/user"}};
  EXPECT_TRUE(parse(bind({"bind", "idmap"}), joined).idmap_uids.empty());
}

TEST(MountOptions, IdmapInCrunsSyntax) {
  oci::Linux container;
  container.uid_mappings = {{0, 0, 1}, {1, 2, 1000}};
  container.gid_mappings = container.uid_mappings;
  const MountOptions options = parse(bind({"bind", "idmap=uids=@1-3-10#20-30-1;gids=0-100-10"}), container);
  ASSERT_EQ(options.idmap_uids.size(), 2U);
  EXPECT_EQ(options.idmap_uids[0].container_id, 1U);
  EXPECT_EQ(options.idmap_uids[0].host_id, 4U);
  EXPECT_EQ(options.idmap_uids[1].host_id, 30U);
  EXPECT_EQ(options.idmap_gids[0].host_id, 100U);
  for (const char* bad : {"idmap=uids=1-2", "idmap=uids=1-2-0;gids=1-2-3", "idmap=uids=-1-2-3;gids=1-2-3",
                          "idmap=uids=@5000-5000-1;gids=1-2-3", "idmap=uids=1-2-3", "idmap=x=1",
                          "idmap=uids=1-2-4294967296;gids=1-2-3"}) {
    EXPECT_NE(parse_error(bind({"bind", bad}), container), "accepted") << bad;
  }
}

TEST(MountOptions, TmpcopyupIsForTmpfs) {
  EXPECT_TRUE(parse(of_type("tmpfs", {"tmpcopyup"})).copy_up);
  EXPECT_THAT(parse_error(bind({"bind", "tmpcopyup"})), ::testing::HasSubstr("tmpcopyup is for tmpfs"));
}

TEST(MountOptions, AttributesOfAMountedFileSystem) {
  EXPECT_EQ(attributes_of_statvfs(ST_RDONLY | ST_RELATIME), std::uint64_t{MOUNT_ATTR_RDONLY});
  EXPECT_EQ(attributes_of_statvfs(ST_NOATIME | ST_NODIRATIME),
            std::uint64_t{MOUNT_ATTR_NOATIME | MOUNT_ATTR_NODIRATIME});
  EXPECT_EQ(attributes_of_statvfs(0), std::uint64_t{MOUNT_ATTR_STRICTATIME});
}

}  // namespace
}  // namespace agentrun::sandbox
