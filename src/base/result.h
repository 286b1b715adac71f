// Result<T> is a value or an Error; TRY hands the error on in one line.
//
//   Result<UniqueFd> open_root() {
//     auto fd = TRY(sys::open_path("/"));
//     TRY(check(fd));
//     return fd;
//   }
#pragma once

#include <boost/system/result.hpp>

#include <utility>

#include "base/error.h"

namespace agentrun {

template <typename T>
using Result = boost::system::result<T, Error>;

// Success of something that has no value.
inline Result<void> ok() { return {}; }

}  // namespace agentrun

// A statement expression (g++ and clang): the value of `expression`, or a return of its error from this function.
#define TRY(expression) AGENTRUN_TRY_AS(expression, __COUNTER__)
#define AGENTRUN_TRY_AS(expression, number) AGENTRUN_TRY_NAMED(expression, number)  // so that the number is one
#define AGENTRUN_TRY_NAMED(expression, number)       \
  __extension__({                                    \
    auto&& try_result_##number = (expression);       \
    if (try_result_##number.has_error()) {           \
      return std::move(try_result_##number).error(); \
    }                                                \
    *std::move(try_result_##number);                 \
  })
