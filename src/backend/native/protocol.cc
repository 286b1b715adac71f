#include "backend/native/protocol.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "sys/socket.h"

namespace agentrun::native {
namespace {

constexpr std::size_t kLongest = 16 * 1024;  // bytes of a message
constexpr std::size_t kLongestText = 4 * 1024;

// Each text with its length before it: nothing in a hostile path can pass for the border between two.
void append(std::string& message, std::string_view text) {
  text = text.substr(0, kLongestText);
  const auto size = static_cast<std::uint32_t>(text.size());
  message.append(reinterpret_cast<const char*>(&size), sizeof size);
  message.append(text);
}

void append(std::string& message, std::int32_t number) {
  message.append(reinterpret_cast<const char*>(&number), sizeof number);
}

class Decoder {
 public:
  explicit Decoder(std::string_view message) : rest_(message) {}

  std::int32_t number() {
    std::int32_t value = 0;
    if (rest_.size() < sizeof value) return 0;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }

  std::string text() {
    std::uint32_t size = 0;
    if (rest_.size() < sizeof size) return {};
    std::memcpy(&size, rest_.data(), sizeof size);
    rest_.remove_prefix(sizeof size);
    std::string value(rest_.substr(0, size));
    rest_.remove_prefix(value.size());
    return value;
  }

 private:
  std::string_view rest_;
};

}  // namespace

Result<void> tell(int socket, Kind kind, std::string_view payload, const std::vector<int>& fds) {
  std::string message(1, static_cast<char>(kind));
  message += payload;
  return sys::send_message(socket, message, fds);
}

void tell_failure(int socket, const Error& error) {
  std::string payload;
  append(payload, error.code);
  append(payload, error.exit_status);
  append(payload, error.operation);
  append(payload, error.object);
  append(payload, error.reason);
  // If the other side is gone nobody is left to hear it.
  (void)tell(socket, Kind::failed, payload);
}

Error decode_failure(std::string_view message) {
  Decoder decoder(message);
  Error error;
  error.code = decoder.number();
  error.exit_status = decoder.number();
  error.operation = decoder.text();
  error.object = decoder.text();
  error.reason = decoder.text();
  return error;
}

Result<Incoming> listen_to(int socket) {
  sys::Message message = TRY(sys::receive_message(socket, kLongest));
  Incoming incoming;
  if (message.end || message.data.empty()) return incoming;
  incoming.kind = static_cast<Kind>(message.data.front());
  incoming.payload = message.data.substr(1);
  incoming.fds = std::move(message.fds);
  if (incoming.kind == Kind::failed) return decode_failure(incoming.payload);
  return incoming;
}

Result<Incoming> expect(int socket, Kind kind) {
  Incoming incoming = TRY(listen_to(socket));
  if (incoming.kind == kind) return incoming;
  if (incoming.kind == Kind::end) {
    return refusal(
        "container process", "",
        "it was killed before the container was ready (limits of memory or processes that are too small do that)");
  }
  return refusal("container process", "", "unexpected message in its protocol");
}

}  // namespace agentrun::native
