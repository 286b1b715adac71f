#include "sandbox/capabilities.h"

#include <sys/capability.h>
#include <sys/prctl.h>

#include <cerrno>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/log.h"

namespace agentrun::sandbox {
namespace {

struct FreeCapabilities {
  void operator()(cap_t capabilities) const { cap_free(capabilities); }
};
using Capabilities = std::unique_ptr<std::remove_pointer_t<cap_t>, FreeCapabilities>;

constexpr std::uint64_t bit(int capability) { return std::uint64_t{1} << capability; }

// What the kernel knows; libcap asks it once.
int count() { return cap_max_bits(); }
std::uint64_t all() { return count() >= 64 ? ~std::uint64_t{0} : bit(count()) - 1; }

std::string name_of(int capability) {
  char* name = cap_to_name(capability);
  std::string text = name == nullptr ? std::to_string(capability) : name;
  cap_free(name);
  for (char& c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

// libcap takes lower case and bare numbers too; the specification does not.
Result<std::uint64_t> mask_of(const std::vector<std::string>& names) {
  std::uint64_t mask = 0;
  for (const std::string& name : names) {
    cap_value_t value = 0;
    if (!name.starts_with("CAP_") || cap_from_name(name.c_str(), &value) != 0 || value < 0 || value > 63) {
      return refusal("capability", name, "unknown");
    }
    mask |= bit(value);
  }
  return mask;
}

std::uint64_t keep_only(std::uint64_t mask, std::uint64_t allowed, const std::string& before, const char* why) {
  for (int capability = 0; capability < 64; ++capability) {
    if ((mask & ~allowed & bit(capability)) == 0) continue;
    log::write(log::Level::warning, before + name_of(capability) + ": " + why);
  }
  return mask & allowed;
}

Result<Capabilities> current() {
  Capabilities now(cap_get_proc());
  if (!now) return errno_error("read capabilities");
  return now;
}

Result<std::uint64_t> flag_mask(const Capabilities& capabilities, cap_flag_t flag) {
  std::uint64_t mask = 0;
  for (int capability = 0; capability < count(); ++capability) {
    cap_flag_value_t value = CAP_CLEAR;
    if (cap_get_flag(capabilities.get(), capability, flag, &value) != 0) return errno_error("read capabilities");
    if (value == CAP_SET) mask |= bit(capability);
  }
  return mask;
}

Result<void> put_flag(const Capabilities& capabilities, cap_flag_t flag, std::uint64_t mask) {
  for (int capability = 0; capability < count(); ++capability) {
    if ((mask & bit(capability)) == 0) continue;
    const cap_value_t value = capability;
    if (cap_set_flag(capabilities.get(), flag, 1, &value, CAP_SET) != 0) return errno_error("set capabilities");
  }
  return ok();
}

std::uint64_t bounding_now() {
  std::uint64_t mask = 0;
  for (int capability = 0; capability < count(); ++capability) {
    if (cap_get_bound(capability) == 1) mask |= bit(capability);
  }
  return mask;
}

Result<void> set_ambient(std::uint64_t mask) {
  if (cap_reset_ambient() != 0) return errno_error("clear ambient capabilities");
  std::uint64_t now = 0;
  for (int capability = 0; capability < count(); ++capability) {
    if ((mask & bit(capability)) != 0 && cap_set_ambient(capability, CAP_SET) != 0) {
      return errno_error("can't raise ambient capability", name_of(capability));
    }
    if (cap_get_ambient(capability) == 1) now |= bit(capability);
  }
  if (now != mask) return refusal("set ambient capabilities", {}, "the kernel has others afterwards");
  return ok();
}

Result<void> check_flag(const Capabilities& now, cap_flag_t flag, std::uint64_t wanted, const char* name) {
  if (TRY(flag_mask(now, flag)) != wanted) return refusal("set capabilities", name, "the kernel has others afterwards");
  return ok();
}

}  // namespace

Result<CapabilitySets> resolve_capabilities(const oci::Capabilities& capabilities) {
  CapabilitySets sets;
  const auto known = [](std::uint64_t mask) { return keep_only(mask, all(), "capability ", "not of this kernel"); };
  sets.bounding = known(TRY(mask_of(capabilities.bounding)));
  sets.permitted = known(TRY(mask_of(capabilities.permitted)));
  sets.inheritable = known(TRY(mask_of(capabilities.inheritable)));
  sets.effective = keep_only(known(TRY(mask_of(capabilities.effective))), sets.permitted,
                             "can't make effective capability ", "it is not permitted");
  sets.ambient = keep_only(known(TRY(mask_of(capabilities.ambient))), sets.permitted & sets.inheritable,
                           "can't raise ambient capability ", "it is not both permitted and inheritable");
  return sets;
}

Result<void> limit_bounding(const CapabilitySets& sets) {
  const std::uint64_t excess = bounding_now() & ~sets.bounding;
  for (int capability = 0; capability < count(); ++capability) {
    if ((excess & bit(capability)) != 0 && cap_drop_bound(capability) != 0) {
      return errno_error("drop from the bounding set", name_of(capability));
    }
  }
  if ((bounding_now() & ~sets.bounding) != 0) {
    return refusal("limit the bounding set", {}, "the kernel has more afterwards");
  }
  return ok();
}

Result<void> keep_over_setuid() {
  if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) return errno_error("prctl PR_SET_KEEPCAPS");
  return ok();
}

Result<void> set_capabilities(const CapabilitySets& sets) {
  const Capabilities before = TRY(current());
  const std::uint64_t had_permitted = TRY(flag_mask(before, CAP_PERMITTED));
  const std::uint64_t had_inheritable = TRY(flag_mask(before, CAP_INHERITABLE));
  const std::uint64_t permitted = sets.permitted & had_permitted;
  const std::uint64_t effective = sets.effective & permitted;
  // capabilities(7): new inheritable ones must be in the bounding set, and permitted unless CAP_SETPCAP is effective.
  const std::uint64_t inheritable = sets.inheritable & (had_inheritable | (had_permitted & bounding_now()));

  const Capabilities wanted(cap_init());
  if (!wanted) return errno_error("set capabilities");
  TRY(put_flag(wanted, CAP_PERMITTED, permitted));
  TRY(put_flag(wanted, CAP_EFFECTIVE, effective));
  TRY(put_flag(wanted, CAP_INHERITABLE, inheritable));
  if (cap_set_proc(wanted.get()) != 0) return errno_error("set capabilities");
  TRY(set_ambient(sets.ambient & permitted & inheritable));
  if (prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) != 0) return errno_error("prctl PR_SET_KEEPCAPS");

  const Capabilities now = TRY(current());
  TRY(check_flag(now, CAP_PERMITTED, permitted, "permitted"));
  TRY(check_flag(now, CAP_EFFECTIVE, effective, "effective"));
  TRY(check_flag(now, CAP_INHERITABLE, inheritable, "inheritable"));
  return ok();
}

}  // namespace agentrun::sandbox
