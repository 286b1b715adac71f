// Errors as values. An Error says what was attempted (operation), on what (object), and why it failed: an errno of the
// kernel, or a reason of our own. It never carries a stack trace: operation and object have to be enough for whoever
// reads one line in an engine's log.
#pragma once

#include <boost/assert/source_location.hpp>

#include <string>

namespace agentrun {

struct Error {
  // No aggregate: C++20 would make it from a bare number, and then Result<int> could not tell value from error.
  Error() = default;

  int code = 0;           // errno; 0 where it was not the kernel that refused
  std::string operation;  // "mount proc"
  std::string object;     // "/proc"; may be empty
  std::string reason;     // in place of strerror(code) where set
  int exit_status = 1;    // what a command that fails by this exits with (126 and 127 for run and exec)

  // "<operation> <object>: <reason>", one line; control characters of hostile input are escaped.
  std::string message() const;
};

// The kernel said no: errno as it is now.
Error errno_error(std::string operation, std::string object = {});

// The kernel said no earlier.
Error os_error(int code, std::string operation, std::string object = {});

// We say no.
Error refusal(std::string operation, std::string object, std::string reason);

// boost::system::result asks for this; it is reached only by value() on an error, which our code never calls.
[[noreturn]] void throw_exception_from_error(const Error& error, const boost::source_location& location);

}  // namespace agentrun
