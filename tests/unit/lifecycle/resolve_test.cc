#include "lifecycle/resolve.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "fixture.h"
#include "lifecycle/facts.h"

namespace agentrun::lifecycle {
namespace {

class ResolveTest : public LifecycleTest {
 protected:
  Result<policy::Policy> resolve(const oci::Annotations& annotations) const {
    return resolve_policy(global_, annotations);
  }

  std::string message(const oci::Annotations& annotations) const {
    const auto policy = resolve(annotations);
    return policy ? std::string("ok") : policy.error().message();
  }
};

TEST_F(ResolveTest, StrictIsTheDefault) {
  const auto policy = resolve({{"some.other", "annotation"}});
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_EQ(policy->name, "strict");
  EXPECT_EQ(policy->limits.memory, 512 << 20);
}

TEST_F(ResolveTest, AnnotationsTighten) {
  const auto policy = resolve({{"org.agentrun.deadline", "90s"},
                               {"org.agentrun.memory", "128M"},
                               {"org.agentrun.cpus", "0.5"},
                               {"org.agentrun.pids", "20"},
                               {"org.agentrun.env.keep", "FOO,BAR_2 FOO"}});
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_EQ(policy->deadline.container, 90'000'000);
  EXPECT_EQ(policy->limits.memory, 128 << 20);
  EXPECT_EQ(policy->limits.cpus, 500);
  EXPECT_EQ(policy->limits.pids, 20);
  const auto& keep = policy->env.keep;
  EXPECT_EQ(std::count(keep.begin(), keep.end(), "FOO"), 1);
  EXPECT_EQ(std::count(keep.begin(), keep.end(), "BAR_2"), 1);
}

TEST_F(ResolveTest, TheSameIsNotLooser) {
  EXPECT_EQ(message({{"org.agentrun.memory", "512M"},
                     {"org.agentrun.deadline", "10m"},
                     {"org.agentrun.cpus", "1"},
                     {"org.agentrun.pids", "128"}}),
            "ok");
}

TEST_F(ResolveTest, WhatLoosensNamesItself) {
  EXPECT_EQ(message({{"org.agentrun.deadline", "11m"}}),
            "read config.json /annotations/org.agentrun.deadline: it would loosen the policy, which has 10m");
  EXPECT_EQ(message({{"org.agentrun.memory", "513M"}}),
            "read config.json /annotations/org.agentrun.memory: it would loosen the policy, which has 512M");
  EXPECT_NE(message({{"org.agentrun.cpus", "1.001"}}).find("org.agentrun.cpus: it would loosen"), std::string::npos);
  EXPECT_EQ(message({{"org.agentrun.pids", "129"}}),
            "read config.json /annotations/org.agentrun.pids: it would loosen the policy, which has 128");
}

TEST_F(ResolveTest, MalformedValuesAreRefusedByName) {
  for (const char* name : {"deadline", "memory", "cpus", "pids"}) {
    const std::string annotation = std::string("org.agentrun.") + name;
    for (const std::string& value :
         {std::string(), std::string("0"), std::string("-1"), std::string("+1"), std::string(" 1"), std::string("1 "),
          std::string("1\n"), std::string("1\0", 2), std::string("0x1"), std::string("1e3"), std::string("none"),
          std::string("99999999999999999999"), std::string(1 << 20, '1'), std::string("\xd9\xa1")}) {
      const std::string text = message({{annotation, value}});
      EXPECT_NE(text.find(annotation), std::string::npos) << value.substr(0, 20) << " gave " << text.substr(0, 200);
      EXPECT_LT(text.size(), 400u);
    }
  }
}

TEST_F(ResolveTest, SecretsAreNeverKept) {
  for (const char* name :
       {"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "my_secret", "Api_Key", "CREDENTIALS"}) {
    EXPECT_NE(message({{"org.agentrun.env.keep", name}}).find("looks like a secret"), std::string::npos) << name;
  }
  for (const std::string& value :
       {std::string("*"), std::string("FOO*"), std::string("A=B"), std::string("1A"), std::string("A\nB"),
        std::string("A\0B", 3), std::string(200, 'A'), std::string(1 << 20, 'A'), std::string("\xc3\x89")}) {
    EXPECT_NE(message({{"org.agentrun.env.keep", value}}).find("org.agentrun.env.keep"), std::string::npos)
        << value.substr(0, 10);
  }
  EXPECT_EQ(message({{"org.agentrun.env.keep", ""}}), "ok");
}

TEST_F(ResolveTest, UnknownOnesAreRefused) {
  for (const char* name : {"org.agentrun.backend", "org.agentrun.policies", "org.agentrun.deadlines", "org.agentrun.",
                           "org.agentrun.Memory", "org.agentrun.memory\n"}) {
    EXPECT_NE(message({{name, "1"}}).find("unknown annotation"), std::string::npos) << name;
  }
  EXPECT_EQ(message({{"org.agentrunner", "1"}}), "ok");
}

TEST_F(ResolveTest, ALimitHoldsUnderOciToo) {
  global_.policy = "oci";
  auto policy = resolve({});
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_TRUE(policy->change_nothing);
  policy = resolve({{"org.agentrun.deadline", "24h"}});
  ASSERT_TRUE(policy);
  EXPECT_FALSE(policy->change_nothing);
  EXPECT_EQ(policy->deadline.container, 86400'000'000);
}

TEST_F(ResolveTest, PolicyFilesAreTheAdministrators) {
  global_.policy = "nobody-knows-it";
  EXPECT_NE(message({}).find("there is none of that name"), std::string::npos);
  const std::string path = scratch_ + "/policy.json";
  global_.policy = path;
  EXPECT_NE(message({}), "ok");
  write_text(path, "{\"extends\":\"strict\"}", 0644);
  EXPECT_EQ(message({}), "ok");
  chmod(path.c_str(), 0664);
  EXPECT_EQ(message({}), "policy " + path + ": others can write to it");
  chmod(path.c_str(), 0644);
  ASSERT_EQ(chown(path.c_str(), 1234, 0), 0);
  EXPECT_EQ(message({}), "policy " + path + ": owned by uid 1234");
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(message({}), "policy " + path + ": not a regular file");  // and does not hang
  // A file in the working directory is none, whatever its name.
  unlink(path.c_str());
  write_text(path, "{\"extends\":\"oci\"}");
  ASSERT_EQ(chdir(scratch_.c_str()), 0);
  global_.policy = "policy.json";
  EXPECT_NE(message({}).find("there is none of that name"), std::string::npos);
  ASSERT_EQ(chdir("/"), 0);
}

class SettingsTest : public ResolveTest {
 protected:
  void settings(const std::string& json) {
    write_text(scratch_ + "/agentrun.json", json);
    global_.config = scratch_ + "/agentrun.json";
  }
  void policy_file(const std::string& name, const std::string& json) {
    mkdir((scratch_ + "/policies").c_str(), 0755);
    write_text(scratch_ + "/policies/" + name + ".json", json);
  }
};

TEST_F(SettingsTest, TheFirstThatSaysSomethingHolds) {
  settings(R"({"default": "team", "selectable": ["build", "team"],
              "roots": {")" +
           root_ + R"(/x": {"default": "session"}}})");
  policy_file("team", R"({"extends": "base", "limits": {"pids": 5}})");
  policy_file("base", R"({"limits": {"memory": "1G"}})");
  auto policy = resolve({});
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_EQ(policy->name, "team");
  EXPECT_EQ(policy->limits.pids, 5);
  EXPECT_EQ(policy->limits.memory, 1ll << 30);
  EXPECT_EQ(resolve({{"org.agentrun.policy", "build"}})->name, "build");
  global_.root = root_ + "/x/";
  EXPECT_EQ(resolve({})->name, "session");
  global_.policy = "oci";
  EXPECT_EQ(resolve({})->name, "oci");
  EXPECT_EQ(resolve({{"org.agentrun.policy", "oci"}})->name, "oci");  // it asks for what it gets
  EXPECT_NE(message({{"org.agentrun.policy", "build"}}).find("/annotations/org.agentrun.policy: the engine's own"),
            std::string::npos);
}

TEST_F(SettingsTest, OnlyWhatIsListedCanBeSelected) {
  EXPECT_EQ(
      message({{"org.agentrun.policy", "strict"}}),
      "read config.json /annotations/org.agentrun.policy: not a policy that callers may select here (there is none)");
  settings(R"({"selectable": ["build"]})");
  for (const std::string& name :
       {std::string("oci"), std::string("../policies/x"), std::string("build\n"), std::string(),
        std::string("build\0", 6), std::string(1 << 20, 'a'), std::string("BUILD")}) {
    const std::string text = message({{"org.agentrun.policy", name}});
    EXPECT_TRUE(text.starts_with("read config.json /annotations/org.agentrun.policy: ")) << text.substr(0, 200);
    EXPECT_LT(text.size(), 400u);
  }
}

TEST_F(SettingsTest, AnnotationsLoosenUpToTheBound) {
  settings(R"({"annotations": {"deadline": "2h", "memory": "1G", "cpus": "2", "pids": 500, "network": "config",
               "env_keep": ["CI*"]}})");
  const auto policy = resolve({{"org.agentrun.deadline", "2h"},
                               {"org.agentrun.memory", "1G"},
                               {"org.agentrun.cpus", "1.5"},
                               {"org.agentrun.pids", "500"},
                               {"org.agentrun.network", "config"},
                               {"org.agentrun.env.keep", "CI_JOB"}});
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_EQ(policy->deadline.container, 7200'000'000);
  EXPECT_EQ(policy->deadline.exec, 7200'000'000);  // it had all of the container's, and has so still
  EXPECT_EQ(policy->limits.memory, 1ll << 30);
  EXPECT_EQ(policy->limits.cpus, 1500);
  EXPECT_EQ(policy->limits.pids, 500);
  EXPECT_EQ(policy->network.mode, policy::NetworkMode::config);
  EXPECT_EQ(
      message({{"org.agentrun.memory", "1025M"}}),
      "read config.json /annotations/org.agentrun.memory: it would loosen the policy, which has 512M; callers may "
      "go up to 1G");
  EXPECT_NE(message({{"org.agentrun.env.keep", "HOME2"}}).find("not among those"), std::string::npos);
  EXPECT_NE(message({{"org.agentrun.env.keep", "CI_TOKEN"}}).find("looks like a secret"), std::string::npos);
  // A bound below the policy's own takes nothing away from it.
  settings(R"({"annotations": {"memory": "1M"}})");
  EXPECT_EQ(message({{"org.agentrun.memory", "512M"}}), "ok");
}

TEST_F(SettingsTest, NetworkIsTightenedByAnyone) {
  EXPECT_EQ(message({{"org.agentrun.network", "none"}}), "ok");
  EXPECT_NE(message({{"org.agentrun.network", "config"}}).find("it would loosen the policy"), std::string::npos);
  EXPECT_NE(message({{"org.agentrun.network", "inherit"}}), "ok");
  global_.policy = "oci";
  const auto policy = resolve({{"org.agentrun.network", "none"}});
  ASSERT_TRUE(policy);
  EXPECT_FALSE(policy->change_nothing);
  EXPECT_EQ(policy->network.mode, policy::NetworkMode::none);
}

TEST_F(SettingsTest, PauseContainersOfACriRootHaveNoDeadline) {
  settings(R"({"roots": {")" + root_ + R"(": {"engine": "cri"}}})");
  const oci::Annotations pause = {{"io.kubernetes.cri.container-type", "sandbox"}};
  global_.root = root_ + "/other";
  EXPECT_TRUE(resolve(pause)->deadline.container);
  global_.root = root_ + "/";
  EXPECT_FALSE(resolve(pause)->deadline.container);
  EXPECT_FALSE(resolve({{"io.kubernetes.cri-o.ContainerType", "sandbox"}})->deadline.created);
  EXPECT_TRUE(resolve({{"io.kubernetes.cri.container-type", "container"}})->deadline.container);
  EXPECT_EQ(resolve(pause)->limits.memory, 512 << 20);
}

TEST_F(SettingsTest, OnlyRootsOwnFileIsTaken) {
  settings("{}");
  const std::string file = global_.config;
  EXPECT_EQ(message({}), "ok");
  ASSERT_EQ(chown(file.c_str(), 1234, 0), 0);
  EXPECT_EQ(message({}), "settings " + file + ": owned by uid 1234");
  ASSERT_EQ(chown(file.c_str(), 0, 0), 0);
  chmod(file.c_str(), 0646);
  EXPECT_EQ(message({}), "settings " + file + ": others can write to it");
  chmod(file.c_str(), 0644);
  const mode_t before = 0755;
  chmod(scratch_.c_str(), 0777);
  EXPECT_EQ(message({}), "settings " + file + ": others can write to the directory " + scratch_);
  chmod(scratch_.c_str(), before);
  ASSERT_EQ(chown(scratch_.c_str(), 1234, 0), 0);
  EXPECT_EQ(message({}), "settings " + file + ": the directory " + scratch_ + " is owned by uid 1234");
  ASSERT_EQ(chown(scratch_.c_str(), 0, 0), 0);
  unlink(file.c_str());
  EXPECT_NE(message({}).find("No such file"), std::string::npos);  // --config names one that is not there
}

TEST_F(ResolveTest, SourcesOfTheCommandLineAreWritable) {
  global_.writable_sources = {"/home/me/out"};
  const auto policy = resolve({});
  ASSERT_TRUE(policy);
  const auto& writable = policy->mounts.allow_writable;
  EXPECT_EQ(std::count(writable.begin(), writable.end(), "/home/me/out"), 1);
}

TEST(EngineStores, OfRootAndOfAUser) {
  const auto has = [](const std::vector<std::string>& stores, const char* store) {
    return std::count(stores.begin(), stores.end(), store) == 1;
  };
  const auto root = engine_stores(nullptr);
  EXPECT_TRUE(has(root, "/var/lib/containers/storage") && has(root, "/run/containers/storage"));
  EXPECT_TRUE(has(root, "/var/lib/docker") && has(root, "/var/lib/containerd"));
  const UserDirectories user{"/home/u/.local/share", "/run/user/1000"};
  const auto own = engine_stores(&user);
  EXPECT_TRUE(has(own, "/home/u/.local/share/containers/storage") && has(own, "/run/user/1000/containers"));
  const UserDirectories unknown;
  EXPECT_TRUE(engine_stores(&unknown).empty());  // "" + "/containers" would be a place of anybody's
}

TEST_F(ResolveTest, FactsSayWhatTheHostIs) {
  sandbox::BindSources sources;
  sources[3].facts = {policy::FileKind::socket, "/run/docker.sock"};
  const auto facts = gather_facts(global_, {}, "/bundle", sources, {});
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->bundle, "/bundle");
  EXPECT_TRUE(facts->as_root);
  EXPECT_EQ(facts->sources.at(3).kind, policy::FileKind::socket);
  EXPECT_EQ(facts->sources.at(3).real_path, "/run/docker.sock");
  EXPECT_FALSE(facts->apparmor_loaded);
  for (const std::uint64_t size : facts->huge_page_sizes) {
    EXPECT_TRUE(exists("/sys/kernel/mm/hugepages/hugepages-" + std::to_string(size / 1024) + "kB")) << size;
  }
}

}  // namespace
}  // namespace agentrun::lifecycle
