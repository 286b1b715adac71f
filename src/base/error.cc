#include "base/error.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/text.h"

namespace agentrun {

std::string Error::message() const {
  std::string text = operation;
  if (!object.empty()) {
    if (!text.empty()) text += ' ';
    text += object;
  }
  if (!reason.empty()) {
    if (!text.empty()) text += ": ";
    text += reason;
  } else if (code != 0) {
    if (!text.empty()) text += ": ";
    text += std::strerror(code);
  }
  return text::printable(text);
}

Error errno_error(std::string operation, std::string object) {
  return os_error(errno, std::move(operation), std::move(object));
}

Error os_error(int code, std::string operation, std::string object) {
  Error error;
  error.code = code;
  error.operation = std::move(operation);
  error.object = std::move(object);
  return error;
}

Error refusal(std::string operation, std::string object, std::string reason) {
  Error error;
  error.operation = std::move(operation);
  error.object = std::move(object);
  error.reason = std::move(reason);
  return error;
}

void throw_exception_from_error(const Error& error, const boost::source_location& /*location*/) {
  throw std::runtime_error(error.message());
}

}  // namespace agentrun
