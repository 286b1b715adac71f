#include "generator.h"

#include <array>
#include <random>

namespace agentrun::policy::testing {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}

  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(engine_() % limit); }
  bool one_in(std::size_t count) { return below(count) == 0; }

  template <typename T>
  const T& of(const std::vector<T>& values) {
    return values[below(values.size())];
  }
  std::string text(const std::vector<std::string>& values) { return of(values); }
  std::vector<std::string> some(const std::vector<std::string>& values) {
    std::vector<std::string> chosen;
    for (const auto& value : values) {
      if (one_in(3)) chosen.push_back(value);
    }
    return chosen;
  }

 private:
  std::mt19937_64 engine_;
};

const std::string kId(64, 'a');

void add_process(oci::Config& config, Dice& dice) {
  if (dice.one_in(20)) return;
  auto& process = config.process.emplace();
  process.args = {"/bin/true"};
  process.cwd = dice.text({"/", "/work", "/root/project", "/tmp/x", "/usr", "/proc/self", "/data", "/etc/../home/me"});
  process.user.uid = dice.one_in(2) ? 0 : 1000;
  process.env =
      dice.some({"PATH=/bin", "HOME=/root", "HOME=/home/me", "AWS_SECRET_ACCESS_KEY=hush", "LC_ALL=C", "LC_API_KEY=k",
                 "LD_PRELOAD=/x.so", "HOME=", "TERM=xterm", "MODE=theirs", "LISTEN_FDS=2", "GOPATH=/go"});
  if (!dice.one_in(4)) {
    const std::vector<std::string> all = {"CAP_CHOWN", "CAP_NET_RAW", "CAP_SYS_ADMIN", "CAP_NET_BIND_SERVICE"};
    auto& sets = process.capabilities.emplace();
    sets.bounding = dice.some(all);
    sets.effective = dice.some(all);
    sets.inheritable = dice.some(all);
    sets.permitted = dice.some(all);
    sets.ambient = dice.some(all);
  }
  for (const auto& type :
       dice.some({"RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_RTPRIO", "RLIMIT_STACK"})) {
    const std::uint64_t hard = dice.of<std::uint64_t>({0, 96, 1024, 1 << 20, ~0ull});
    process.rlimits.push_back({type, hard, dice.one_in(2) ? hard : hard / 2});
  }
  process.no_new_privileges = dice.one_in(2);
  process.apparmor_profile =
      dice.text({"", "unconfined", "containers-default", "agentrun-strict", "a//&agentrun-strict"});
  process.selinux_label = dice.text({"", "system_u:system_r:container_t:s0:c1,c2"});
  if (dice.one_in(3)) process.oom_score_adj = dice.of<std::int32_t>({-1000, -1, 0, 500});
  if (dice.one_in(3)) {
    auto& scheduler = process.scheduler.emplace();
    scheduler.policy = dice.text({"SCHED_OTHER", "SCHED_BATCH", "SCHED_FIFO", "SCHED_IDLE"});
    if (scheduler.policy == "SCHED_FIFO") scheduler.priority = 10;
    if (scheduler.policy == "SCHED_OTHER") scheduler.nice = dice.of<std::int32_t>({-20, 0, 5});
  }
  if (dice.one_in(3)) {
    process.io_priority = oci::IoPriority{dice.text({"IOPRIO_CLASS_RT", "IOPRIO_CLASS_BE", "IOPRIO_CLASS_IDLE"}), 0};
    if (process.io_priority->io_class == "IOPRIO_CLASS_BE")
      process.io_priority->priority = dice.of<std::int32_t>({0, 4, 7});
  }
}

void add_mounts(Sample& sample, Dice& dice) {
  auto& mounts = sample.config.mounts;
  const auto add = [&](const char* destination, const char* type, const char* source,
                       std::vector<std::string> options) {
    mounts.push_back({destination, type, source, std::move(options), {}, {}});
  };
  const auto bind = [&](const char* destination, const std::string& source, std::vector<std::string> options,
                        FileKind kind = FileKind::directory) {
    add(destination, "bind", source.c_str(), std::move(options));
    const std::uint32_t owner = dice.of<std::uint32_t>({0, 1000, 100'000});
    sample.facts.sources[mounts.size() - 1] = {kind, source, owner, owner};
  };
  const std::vector<std::string> odd = {"rw",     "ro",     "suid",     "dev",   "exec",
                                        "shared", "rslave", "rprivate", "nodev", "relatime"};
  if (!dice.one_in(8)) add("/proc", "proc", "proc", dice.some(odd));
  if (!dice.one_in(8)) add("/dev", "tmpfs", "tmpfs", {"nosuid", "strictatime", "mode=755", "size=65536k"});
  if (dice.one_in(2)) add("/dev/pts", "devpts", "devpts", {"nosuid", "noexec", "newinstance", "ptmxmode=0666"});
  if (dice.one_in(2)) add("/sys", "sysfs", "sysfs", dice.some(odd));
  if (dice.one_in(2)) add("/sys/fs/cgroup", "cgroup", "cgroup", dice.some(odd));
  if (dice.one_in(3)) {
    add(dice.one_in(2) ? "/tmp" : "/run", "tmpfs", "tmpfs", dice.some(odd));
    mounts.back().options.push_back(
        dice.text({"size=1m", "size=90%", "size=0", "size=8g", "nr_blocks=0", "mode=755", "huge=always"}));
  }
  if (dice.one_in(2)) bind("/work", dice.text({"/home/me/x", "/srv/data", "/mnt/out/7"}), dice.some(odd));
  if (dice.one_in(3)) bind("/vol", "/var/lib/containers/storage/volumes/v/_data", {"rbind", "rw"});
  const std::string own = "/run/containers/storage/overlay-containers/" + kId + "/userdata/";
  if (dice.one_in(2)) bind("/etc/hosts", own + "hosts", {"bind", "rprivate"}, FileKind::regular);
  if (dice.one_in(2)) bind("/run/secrets/x", own + "secrets/x", {"bind", "rprivate", "rw"}, FileKind::regular);
  if (dice.one_in(3)) bind("/dev/shm", own + "shm", {"bind", "private", "nosuid", "noexec", "nodev"});
  if (dice.one_in(12)) bind("/sys/fs/cgroup", "/sys/fs/cgroup", {"rbind", "rw"});
  if (dice.one_in(12)) bind("/dev/mqueue", "/dev/mqueue", {"bind"});
  if (dice.one_in(30)) bind("/host", "/", {"rbind", "ro"});
  if (dice.one_in(30)) bind("/s", "/srv/d.sock", {"bind", "ro"}, FileKind::socket);
  if (dice.one_in(30)) add("/o", "overlay", "overlay", {"lowerdir=/etc:/root"});
}

void add_resources(oci::Config& config, Dice& dice) {
  if (dice.one_in(6)) return;
  auto& resources = config.linux.resources.emplace();
  const std::vector<std::int64_t> sizes = {-1, 64 << 20, 512ll << 20, 16ll << 30};
  if (!dice.one_in(3)) {
    auto& memory = resources.memory.emplace();
    if (dice.one_in(2)) memory.limit = dice.of(sizes);
    if (dice.one_in(2)) memory.swap = dice.of<std::int64_t>({-1, 16ll << 30, 32ll << 30});
    if (memory.limit == -1) memory.swap = -1;
    if (dice.one_in(3)) memory.reservation = dice.of<std::int64_t>({1 << 20, 16ll << 30});
    if (dice.one_in(3)) memory.disable_oom_killer = dice.one_in(2);
  }
  if (!dice.one_in(3)) {
    auto& cpu = resources.cpu.emplace();
    if (dice.one_in(2)) cpu.quota = dice.of<std::int64_t>({-1, 1000, 50'000, 100'000, 800'000});
    if (dice.one_in(2)) cpu.period = dice.of<std::uint64_t>({1000, 10'000, 100'000, 1'000'000});
    if (dice.one_in(3)) cpu.burst = 1000;
    if (dice.one_in(3)) cpu.shares = dice.of<std::uint64_t>({2, 1024, 262'144});
    if (dice.one_in(4)) cpu.cpus = "0-1";
    if (dice.one_in(4)) cpu.realtime_runtime = 950'000, cpu.realtime_period = 1'000'000;
  }
  if (dice.one_in(2)) resources.pids_limit = dice.of<std::int64_t>({-1, 0, 64, 100'000});
  if (dice.one_in(3)) resources.hugepage_limits.push_back({"2MB", 1ull << 30});
  if (dice.one_in(3)) {
    auto& io = resources.block_io.emplace();
    const std::vector<std::uint64_t> rates = {0, 5, 1 << 20, ~0ull};
    if (dice.one_in(2)) io.read_bps.push_back({8, 0, dice.of(rates)});
    if (dice.one_in(2)) io.write_bps.push_back({9, 9, dice.of(rates)});
    if (dice.one_in(2)) io.read_iops = {{8, 0, dice.of(rates)}, {8, 0, dice.of(rates)}};
    if (dice.one_in(2)) io.weight = 500;
  }
  if (dice.one_in(3)) resources.unified = {{"memory.max", "max"}, {"memory.high", "max"}};
  if (dice.one_in(4)) resources.network = oci::NetworkResources{1048577u, {{"eth0", 500}}};
  for (const auto& rule : std::vector<oci::DeviceRule>{{false, 'a', {}, {}, "rwm"},
                                                       {true, 'a', {}, {}, "rwm"},
                                                       {true, 'c', 1, 3, "rwm"},
                                                       {true, 'c', {}, {}, "m"},
                                                       {true, 'b', 8, {}, "r"},
                                                       {true, 'c', 136, {}, "rwm"},
                                                       {false, 'c', 1, 5, "w"}}) {
    if (dice.one_in(2)) resources.devices.push_back(rule);
  }
}

void add_namespaces(Sample& sample, Dice& dice) {
  using enum oci::NamespaceType;
  for (const auto type : {pid, network, mount, ipc, uts, user, cgroup}) {
    if (dice.one_in(4)) continue;
    if (type == user && !dice.one_in(4)) continue;
    const bool joined = type != mount && type != user && dice.one_in(3);
    const std::string name = oci::name_of(type);
    sample.config.linux.namespaces.push_back({type, joined ? "/proc/77/ns/" + name : ""});
    if (joined && dice.one_in(3)) sample.facts.namespaces_of_host.push_back(name);
    if (type == user) {
      const std::uint32_t first = dice.one_in(3) ? 0 : 100'000;
      sample.config.linux.uid_mappings = {{0, first, 65'536}};
      sample.config.linux.gid_mappings = {{0, 100'000, 65'536}};
    }
  }
}

void add_linux(oci::Config& config, Dice& dice) {
  auto& l = config.linux;
  if (dice.one_in(3)) l.devices.push_back({'c', "/dev/kvm", 10, 232, 0666, {}, {}});
  if (dice.one_in(3)) l.devices.push_back({'c', "/dev/null", 1, 3, 0666, 0, 0});
  if (dice.one_in(6)) l.devices.push_back({'b', "/dev/sda", 8, 0, 0666, {}, {}});
  if (dice.one_in(6)) l.net_devices["eth7"] = {"eth0"};
  for (const auto& key : dice.some({"net.ipv4.ip_forward", "kernel.shmmax", "fs.mqueue.msg_max", "kernel.msgmax"}))
    l.sysctl[key] = "1";
  if (dice.one_in(3)) {
    auto& seccomp = l.seccomp.emplace();
    seccomp.default_action = "SCMP_ACT_ERRNO";
    seccomp.flags = dice.some({"SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_SPEC_ALLOW"});
    seccomp.syscalls.push_back({{"read", "write", "seccomp"}, "SCMP_ACT_ALLOW", {}, {}});
  }
  l.rootfs_propagation = dice.text({"", "private", "shared", "rshared", "slave"});
  l.masked_paths = dice.some({"/proc/kcore", "/proc/keys", "/sys/firmware", "/own"});
  l.readonly_paths = dice.some({"/proc/sys", "/proc/bus", "/own"});
  if (dice.one_in(6)) l.personality = oci::Personality{"LINUX32", {}};
  if (dice.one_in(6)) l.intel_rdt = oci::IntelRdt{"group", "", "", {}, false};
  if (dice.one_in(6)) l.memory_policy = oci::MemoryPolicy{"MPOL_BIND", "0", {}};
}

void add_outside(oci::Config& config, Dice& dice) {
  for (const auto& key :
       dice.some({"run.oci.handler", "org.systemd.property.CPUQuota", "org.systemd.property.KillSignal", "krun.cpus",
                  "org.agentrun.deadline", "io.kubernetes.cri.container-type", "harmless/key"})) {
    config.annotations[key] = dice.text({"15", "uint64 10000000", "sandbox"});
  }
  if (dice.one_in(4)) config.hooks.prestart.push_back({"/usr/bin/hook", {"hook"}, {"SECRET=x"}, {}});
  if (dice.one_in(4)) config.hooks.poststop.push_back({"/opt/hooks/good", {"good"}, {}, 5});
  if (dice.one_in(4)) config.hooks.poststop.push_back({"/opt/hooks/../evil", {}, {}, {}});
}

// {"key": value, ...} of some of the members.
std::string object_of(const std::vector<std::pair<std::string, std::vector<std::string>>>& members, Dice& dice) {
  std::string text;
  for (const auto& [key, values] : members) {
    if (!dice.one_in(3)) continue;
    text += (text.empty() ? "\"" : ", \"") + key + "\": " + dice.of(values);
  }
  return "{" + text + "}";
}

}  // namespace

std::string generate_policy(std::uint64_t seed) {
  Dice dice(seed ^ 0x9e3779b97f4a7c15);
  const std::vector<std::string> yes_no = {"true", "true", "false"};
  const auto section = [&](std::vector<std::pair<std::string, std::vector<std::string>>> members) {
    return std::vector<std::string>{object_of(members, dice)};
  };
  return object_of(
      {{"extends", {R"("oci")", R"("strict")", R"("build")", R"("session")"}},
       {"env", section({{"filter", yes_no},
                        {"keep", {"[]", R"(["PATH", "LC_*"])", R"(["*"])", R"({"add": ["MODE", "LC_API_KEY"]})"}},
                        {"secrets", {"[]", R"(["*key*"])"}},
                        {"set", {R"({"MODE": "ours"})", R"({"NEW": "", "PATH": "/bin"})"}}})},
       {"rootfs", section({{"readonly", yes_no}})},
       {"workdir", section({{"writable", yes_no},
                            {"size", {R"("1M")", "8192", R"("1T")"}},
                            {"inodes", {"1", "100", R"("none")"}},
                            {"empty", {"[]", R"(["/tmp", "/data"])", R"({"add": ["/var/cache"]})"}},
                            {"home", yes_no},
                            {"cwd", yes_no},
                            {"never", {"[]", R"(["/", "/root*"])"}}})},
       {"mounts", section({{"restrict_binds", yes_no},
                           {"refuse_sources", {"[]", R"(["/"])", R"(["/etc", "/srv"])"}},
                           {"allow_sources", {"[]", R"(["/srv/*"])"}},
                           {"allow_writable", {"[]", R"(["/srv", "/home/me"])"}},
                           {"refuse_special", yes_no},
                           {"force_readonly", yes_no},
                           {"force_nosuid", yes_no},
                           {"force_nodev", yes_no},
                           {"restrict_types", yes_no}})},
       {"network", section({{"mode", {R"("none")", R"("config")", R"("inherit")"}}})},
       {"limits", section({{"memory", {R"("64M")", R"("1G")", R"("none")"}},
                           {"no_swap", yes_no},
                           {"cpus", {R"("0.05")", "4", R"("none")"}},
                           {"cpu_mask", yes_no},
                           {"pids", {"1", "4194304", R"("none")"}},
                           {"nofile", {"64", R"("none")"}},
                           {"fsize", {"0", R"("1G")", R"("none")"}},
                           {"core", {"0", R"("none")"}},
                           {"no_hugepages", yes_no},
                           {"normal_priority", yes_no}})},
       {"deadline", section({{"container", {R"("1us")", R"("30m")", R"("none")"}},
                             {"exec", {R"("1s")", R"("none")"}},
                             {"created", {R"("1m")", R"("none")"}}})},
       {"namespaces", section({{"private_all", yes_no}})},
       {"user", section({{"no_new_privileges", yes_no}, {"refuse_root_with_capabilities", yes_no}})},
       {"capabilities", section({{"restrict", yes_no}, {"keep", {"[]", R"(["CAP_CHOWN", "CAP_NET_RAW"])"}}})},
       {"seccomp", section({{"program", {R"("strict")", R"("none")"}}})},
       {"apparmor", section({{"profile", {R"("agentrun-strict")", R"("other")", R"("none")"}}})},
       {"devices", section({{"standard_only", yes_no}})},
       {"sysctl", section({{"namespaced_only", yes_no}})},
       {"hooks", section({{"refuse_config", yes_no}, {"directories", {"[]", R"(["/opt/hooks"])"}}})},
       {"annotations", section({{"ignore_runtime", yes_no}})},
       {"masks", section({{"masked", {"[]", R"(["/own", "/x"])"}}, {"readonly", {R"({"add": ["/proc/bus"]})"}}})},
       {"audit", section({{"enable", yes_no}})},
       {"require", {"[]", R"(["namespaces"])", R"({"add": ["cgroup.memory", "cgroup.kill"]})", R"(["apparmor"])"}}},
      dice);
}

Sample generate(std::uint64_t seed) {
  Dice dice(seed);
  Sample sample;
  sample.config.oci_version = "1.3.0";
  sample.config.root = {"rootfs", dice.one_in(2)};
  sample.config.hostname = "box";
  sample.facts.bundle = "/var/lib/containers/storage/overlay-containers/" + kId + "/userdata";
  sample.facts.trusted_sources = {"/var/lib/containers/storage", "/run/containers/storage"};
  sample.facts.private_ids = PrivateIds{1'000'000, 2'000'000, 65'536};
  sample.facts.apparmor_loaded = dice.one_in(2);
  sample.facts.landlock_abi = static_cast<int>(dice.below(10));
  sample.facts.cgroup_cpu = !dice.one_in(4);
  sample.facts.cgroup_io = !dice.one_in(4);
  if (dice.one_in(2)) sample.facts.disks = {{8, 0}, {259, 3}};
  if (dice.one_in(2)) sample.facts.disk_missing = "no disk here";
  if (dice.one_in(2)) sample.facts.huge_page_sizes = {2u << 20, 1u << 30};
  add_process(sample.config, dice);
  add_mounts(sample, dice);
  add_namespaces(sample, dice);
  add_resources(sample.config, dice);
  add_linux(sample.config, dice);
  add_outside(sample.config, dice);
  return sample;
}

}  // namespace agentrun::policy::testing
