// What C++ programs need of a kernel, through the standard library where it has it. Prints a line for each ability that
// works; dies at the first that does not.
#include <arpa/inet.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <locale>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void check(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

void ok(const char* ability) { std::cout << "ok " << ability << std::endl; }

void threads() {
  std::atomic<int> counter{0};
  std::vector<std::thread> all;
  for (int i = 0; i < 8; ++i) {
    all.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) ++counter;
    });
  }
  for (auto& thread : all) thread.join();
  check(counter == 8000, "the threads' sum");
  check(std::async(std::launch::async, [] { return 6 * 7; }).get() == 42, "async");
  ok("threads");
}

void subprocess() {
  check(std::system("exit 3") == 3 << 8, "the child's exit code");
  ok("subprocess");
}

void sockets() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  const int server = socket(AF_INET, SOCK_STREAM, 0);
  check(server >= 0 && bind(server, plain, size) == 0 && listen(server, 1) == 0, "a server");
  check(getsockname(server, plain, &size) == 0, "the server's port");
  auto answer = std::async(std::launch::async, [&] {
    const int connection = accept(server, nullptr, nullptr);
    char c = 0;
    return connection >= 0 && read(connection, &c, 1) == 1 && write(connection, &(++c), 1) == 1;
  });
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  char c = 'a';
  check(connect(client, plain, size) == 0 && write(client, &c, 1) == 1 && read(client, &c, 1) == 1, "a client");
  check(answer.get() && c == 'b', "the answer");
  ok("sockets");
}

void files(const std::filesystem::path& directory) {
  const auto path = directory / "abilities-directory" / "file";
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "content\n";
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  check(line == "content", "what was written");
  std::filesystem::copy_file(path, path.parent_path() / "copy");
  check(std::filesystem::file_size(path.parent_path() / "copy") == 8, "the copy");
  check(std::filesystem::remove_all(path.parent_path()) == 3, "removal");
}

void memory_maps() {
  constexpr std::size_t size = 1 << 20;
  void* map = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(map != MAP_FAILED, "mmap");
  auto* bytes = static_cast<char*>(map);
  bytes[size - 1] = 1;
  check(bytes[0] == 0 && bytes[size - 1] == 1 && munmap(map, size) == 0, "the map");
  check(std::vector<int>(4 << 20, 1).back() == 1, "a big vector");
  ok("mmap");
}

volatile std::sig_atomic_t caught = 0;

void signals() {
  std::signal(SIGUSR1, [](int number) { caught = number; });
  check(std::raise(SIGUSR1) == 0 && caught == SIGUSR1, "a signal");
  ok("signals");
}

void timers() {
  using namespace std::chrono;
  const auto before = steady_clock::now();
  std::this_thread::sleep_for(milliseconds(5));
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  check(!never.wait_for(lock, milliseconds(5), [] { return false; }), "a wait");
  check(steady_clock::now() - before >= milliseconds(10), "the clock");
  ok("timers");
}

void locales() {
  const std::locale locale("");
  check(locale.name() == "C.UTF-8", "the environment's locale");
  using convert = std::codecvt<wchar_t, char, std::mbstate_t>;
  std::mbstate_t state{};
  const char text[] = "\xc3\xa4";
  const char* from = nullptr;
  wchar_t wide[2];
  wchar_t* to = nullptr;
  std::use_facet<convert>(locale).in(state, text, text + 2, from, wide, wide + 2, to);
  check(to == wide + 1 && wide[0] == 0xe4, "UTF-8");
  ok("locale");
}

}  // namespace

int main() try {
  threads();
  subprocess();
  sockets();
  files(".");
  ok("files");
  files("/tmp");
  ok("tmp");
  memory_maps();
  signals();
  timers();
  locales();
  // hardware_concurrency() counts those of the host, in /sys or /proc/stat: only the affinity says what this process
  // may use.
  cpu_set_t set;
  check(sched_getaffinity(0, sizeof set, &set) == 0, "the affinity");
  std::cout << "cpus " << CPU_COUNT(&set) << "\ndone\n";
} catch (const std::exception& error) {
  std::cerr << "abilities.cc: " << error.what() << "\n";
  return 1;
}
