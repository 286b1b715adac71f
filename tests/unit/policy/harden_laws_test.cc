// The three laws of harden(), over generated configs: it never loosens; twice is once; every difference is reported.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>

#include "base/text.h"
#include "generator.h"
#include "judge.h"
#include "oci/parse.h"
#include "oci/print.h"
#include "policy/harden.h"
#include "policy/policy.h"

namespace agentrun::policy {
namespace {

namespace json = boost::json;
using testing::Sample;

constexpr std::uint64_t kSamples = 600;

std::vector<Policy> policies() {
  std::vector<Policy> result;
  for (const char* name : {"strict", "build", "session", "oci"}) result.push_back(*builtin_policy(name));
  const auto custom = [&](const char* text) {
    auto policy = parse_policy(text, "custom.json");
    EXPECT_TRUE(policy) << policy.error().message();
    result.push_back(*policy);
  };
  custom(R"({"env": {"keep": {"add": ["LC_API_KEY"]}, "set": {"MODE": "ours", "NEW": "x"}},
             "capabilities": {"keep": ["CAP_NET_BIND_SERVICE", "CAP_CHOWN"]},
             "user": {"refuse_root_with_capabilities": false},
             "mounts": {"allow_writable": ["/srv", "/home/me/x"]},
             "network": {"mode": "config"},
             "hooks": {"directories": ["/opt/hooks"]}})");
  custom(R"({"extends": "oci", "limits": {"memory": "1G", "pids": 10, "cpus": "0.25"}})");
  custom(R"({"extends": "oci", "namespaces": {"private_all": true}, "network": {"mode": "inherit"},
             "devices": {"standard_only": true}, "sysctl": {"namespaced_only": true}})");
  custom(R"({"workdir": {"backing": "disk-or-memory", "size": "4G"},
             "limits": {"io": {"read_bps": "1M", "write_bps": "2M", "read_iops": 10, "write_iops": 20}}})");
  custom(R"({"extends": "oci", "rootfs": {"readonly": true}, "user": {"no_new_privileges": true},
             "landlock": {"files": true, "scopes": true, "exec": true}})");
  custom(R"({"user": {"userns": "auto"}, "mounts": {"allow_writable": ["/srv", "/home/me/x"]}})");
  custom(R"({"extends": "oci", "user": {"userns": "auto"}})");
  return result;
}

std::vector<std::string> names_set_by(const Policy& policy) {
  std::vector<std::string> names;
  for (const auto& [name, value] : policy.env.set) names.push_back(name);
  return names;
}

std::string text_of(const oci::Config& config) { return oci::print_config(config, oci::Layout::compact); }

std::string describe(const Report& report) { return "\n" + explain_report(report); }

// --- the report as a patch: what came in, changed as the report says, is what went out ---

std::vector<std::string> pointer_parts(const std::string& pointer) {
  std::vector<std::string> parts;
  for (const auto part : text::split(std::string_view(pointer).substr(1), '/')) {
    std::string key;
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (part[i] == '~') {
        key += part[++i] == '0' ? '~' : '/';
      } else {
        key += part[i];
      }
    }
    parts.push_back(key);
  }
  return parts;
}

class Patch {
 public:
  explicit Patch(json::value document) : document_(std::move(document)) {}

  void apply(const Change& change) {
    SCOPED_TRACE(change.pointer + ": " + change.before + " -> " + change.after);
    const auto parts = pointer_parts(change.pointer);
    json::value* parent = &document_;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) parent = child(*parent, parts[i], parts[i + 1] == "-");
    const std::string& key = parts.back();
    if (parent->is_array()) {
      change_element(parent->get_array(), key, change);
    } else {
      if (parent->is_null()) *parent = json::object();
      change_member(parent->get_object(), key, change);
    }
  }

  // Elements that went are taken out last: the report counts them as they came in.
  json::value finish() {
    for (auto& [pointer, indices] : removed_) {
      auto& array = document_.at_pointer(pointer).get_array();
      std::sort(indices.begin(), indices.end());
      while (!indices.empty()) {
        array.erase(array.begin() + static_cast<std::ptrdiff_t>(indices.back()));
        indices.pop_back();
      }
    }
    return document_;
  }

 private:
  static json::value* child(json::value& parent, const std::string& key, bool is_list) {
    if (parent.is_array()) return &parent.get_array().at(std::stoul(key));
    if (parent.is_null()) parent = json::object();
    json::value& value = parent.get_object()[key];
    if (value.is_null()) value = is_list ? json::value(json::array()) : json::value(json::object());
    return &value;
  }

  // An object is shown in part (a hook by its path); what is "off" by being absent may be shown as such.
  static void check_before(const json::value* real, const std::string& before) {
    if (before.empty()) {
      EXPECT_TRUE(real == nullptr || real->is_null() || (real->is_array() && real->get_array().empty()));
      return;
    }
    const json::value said = json::parse(before);
    if (real == nullptr || real->is_null()) {
      EXPECT_TRUE(before == "false" || before == "0" || before == "[]");
    } else if (said.is_object()) {
      for (const auto& member : said.get_object()) EXPECT_EQ(real->get_object().at(member.key()), member.value());
    } else {
      EXPECT_EQ(*real, said);
    }
  }

  void change_element(json::array& array, const std::string& key, const Change& change) {
    if (key == "-") {
      EXPECT_TRUE(change.before.empty());
      array.push_back(json::parse(change.after));
      return;
    }
    const std::size_t index = std::stoul(key);
    ASSERT_LT(index, array.size());
    check_before(&array[index], change.before);
    if (change.after.empty()) {
      removed_[change.pointer.substr(0, change.pointer.rfind('/'))].push_back(index);
    } else {
      array[index] = json::parse(change.after);
    }
  }

  static void change_member(json::object& object, const std::string& key, const Change& change) {
    check_before(object.if_contains(key), change.before);
    if (change.after.empty()) {
      object.erase(key);
    } else {
      object[key] = json::parse(change.after);
    }
  }

  json::value document_;
  std::map<std::string, std::vector<std::size_t>> removed_;  // by pointer of the array
};

// Of environment variables the report has the names: both sides are compared by them.
json::value with_names_only(const oci::Config& config) {
  json::value document = json::parse(text_of(config));
  if (config.process) {
    json::array names;
    for (const auto& entry : config.process->env) names.push_back(json::string(entry.substr(0, entry.find('='))));
    document.get_object()["process"].get_object()["env"] = std::move(names);
  }
  return document;
}

// Through the types and back, so that an absent member and an empty one are the same.
std::string normal(json::value document) {
  if (json::value* process = document.get_object().if_contains("process")) {
    if (json::value* env = process->get_object().if_contains("env")) {
      for (auto& name : env->get_array()) name = std::string(name.get_string()) + "=";
    }
  }
  const auto config = oci::parse_config(json::serialize(document), "patched.json");
  EXPECT_TRUE(config) << config.error().message() << "\n" << json::serialize(document);
  return config ? text_of(*config) : std::string();
}

// --- the laws ---

// Thousands of policies, each with a config of its own.
template <typename Test>
void for_each_policy(const Test& test) {
  constexpr std::uint64_t kPolicies = 3000;
  std::size_t accepted = 0, parsed = 0;
  for (std::uint64_t seed = 0; seed < kPolicies; ++seed) {
    const auto policy = parse_policy(testing::generate_policy(seed), "generated.json");
    if (!policy) continue;
    ++parsed;
    const Sample sample = testing::generate(seed + kSamples);
    const auto effective = harden(sample.config, *policy, sample.facts);
    if (!effective) continue;
    ++accepted;
    SCOPED_TRACE(testing::generate_policy(seed) + ", seed " + std::to_string(seed) + describe(effective->report));
    test(sample, *policy, *effective);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(parsed, kPolicies * 2 / 3) << "the parser refuses most of them";
  EXPECT_GT(accepted, kPolicies / 4) << "most samples are refused: the laws are hardly tested";
}

template <typename Test>
void for_each_sample(const Test& test) {
  for_each_policy(test);
  for (const Policy& policy : policies()) {
    std::size_t accepted = 0;
    for (std::uint64_t seed = 0; seed < kSamples; ++seed) {
      const Sample sample = testing::generate(seed);
      const auto effective = harden(sample.config, policy, sample.facts);
      if (!effective) continue;
      ++accepted;
      SCOPED_TRACE(policy.name + ", seed " + std::to_string(seed) + describe(effective->report));
      test(sample, policy, *effective);
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GT(accepted, kSamples / 2) << policy.name << " refuses most samples: the laws are hardly tested";
  }
}

TEST(HardenLaws, TheSamplesAreConfigs) {
  for (std::uint64_t seed = 0; seed < kSamples; ++seed) {
    const auto parsed = oci::parse_config(text_of(testing::generate(seed).config), "sample.json");
    ASSERT_TRUE(parsed) << seed << ": " << parsed.error().message();
  }
}

TEST(HardenLaws, NeverLoosens) {
  for_each_sample([](const Sample& sample, const Policy& policy, const Effective& effective) {
    EXPECT_EQ(text::join(testing::loosened(sample.config, effective.config, names_set_by(policy)), "\n"), "");
  });
}

TEST(HardenLaws, TwiceIsOnce) {
  for_each_sample([](const Sample& sample, const Policy& policy, const Effective& effective) {
    const auto again = harden(effective.config, policy, sample.facts);
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(text_of(again->config), text_of(effective.config));
    EXPECT_TRUE(again->report.changes.empty()) << describe(again->report);
    EXPECT_EQ(again->cpu_mask_width, effective.cpu_mask_width);
    EXPECT_EQ(again->landlock, effective.landlock);
    EXPECT_EQ(again->writable.has_value(), effective.writable.has_value());
    if (again->writable) {
      EXPECT_EQ(again->writable->size, effective.writable->size);
      EXPECT_EQ(again->writable->overlays, effective.writable->overlays);
    }
  });
}

TEST(HardenLaws, TheReportHasEveryChange) {
  for_each_sample([](const Sample& sample, const Policy& policy, const Effective& effective) {
    Patch patch(with_names_only(sample.config));
    for (const auto& change : effective.report.changes) {
      EXPECT_TRUE(change.rule.starts_with(policy.name + " /")) << change.rule;
      patch.apply(change);
    }
    EXPECT_EQ(normal(patch.finish()), normal(with_names_only(effective.config)));
    // Beyond the names: a value that is not the config's is the policy's.
    if (!effective.config.process) return;
    for (const auto& entry : effective.config.process->env) {
      const auto& before = sample.config.process->env;
      const auto set = policy.env.set.find(entry.substr(0, entry.find('=')));
      EXPECT_TRUE(set != policy.env.set.end() || std::count(before.begin(), before.end(), entry) > 0) << entry;
    }
  });
}

TEST(HardenLaws, OciChangesNothing) {
  const Policy policy = *builtin_policy("oci");
  for (std::uint64_t seed = 0; seed < kSamples; ++seed) {
    const Sample sample = testing::generate(seed);
    const auto effective = harden(sample.config, policy, sample.facts);
    ASSERT_TRUE(effective);
    EXPECT_EQ(text_of(effective->config), text_of(sample.config));
    EXPECT_EQ(effective->report.policy, "oci");
    EXPECT_TRUE(effective->report.changes.empty() && effective->report.notes.empty());
    EXPECT_FALSE(effective->writable || effective->empty_network || effective->audit || effective->landlock ||
                 effective->deadline || effective->cpu_mask_width || !effective->seccomp_program.empty());
  }
}

// A value of an environment variable is never in a report, whatever became of it.
TEST(HardenLaws, TheReportHasNoSecret) {
  for_each_sample([](const Sample&, const Policy&, const Effective& effective) {
    EXPECT_EQ(print_report(effective.report).find("hush"), std::string::npos);
    EXPECT_EQ(print_report(effective.report).find("SECRET=x"), std::string::npos);
  });
}

}  // namespace
}  // namespace agentrun::policy
