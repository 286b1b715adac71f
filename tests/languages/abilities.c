/* What C programs need of a kernel, through the C library. Prints a line for each ability that works; dies at the first
   that does not. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#define CHECK(condition)                                                  \
  do {                                                                    \
    if (!(condition)) {                                                   \
      fprintf(stderr, "abilities.c:%d: %s (%m)\n", __LINE__, #condition); \
      exit(1);                                                            \
    }                                                                     \
  } while (0)

static void ok(const char* ability) { printf("ok %s\n", ability); }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long counter;

static void* count(void* unused) {
  (void)unused;
  for (int i = 0; i < 1000; ++i) {
    pthread_mutex_lock(&mutex);
    ++counter;
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

static void threads(void) {
  pthread_t thread[8];
  for (int i = 0; i < 8; ++i) CHECK(pthread_create(&thread[i], NULL, count, NULL) == 0);
  for (int i = 0; i < 8; ++i) CHECK(pthread_join(thread[i], NULL) == 0);
  CHECK(counter == 8000);
  ok("threads");
}

static void subprocess(void) {
  char line[32] = "";
  FILE* pipe = popen("echo from a child", "r");
  CHECK(pipe && fgets(line, sizeof line, pipe) && strcmp(line, "from a child\n") == 0 && pclose(pipe) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(7);
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  ok("subprocess");
}

static void* echo_once(void* argument) {
  char buffer[8];
  int connection = accept(*(int*)argument, NULL, NULL);
  ssize_t size = connection < 0 ? -1 : recv(connection, buffer, sizeof buffer, 0);
  if (size > 0) size = send(connection, buffer, (size_t)size, 0);
  close(connection);
  return size == 5 ? argument : NULL;
}

static void sockets(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(server >= 0 && bind(server, (struct sockaddr*)&address, size) == 0 && listen(server, 1) == 0);
  CHECK(getsockname(server, (struct sockaddr*)&address, &size) == 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, echo_once, &server) == 0);
  int client = socket(AF_INET, SOCK_STREAM, 0);
  char buffer[8] = "";
  CHECK(client >= 0 && connect(client, (struct sockaddr*)&address, size) == 0 && send(client, "hello", 5, 0) == 5);
  CHECK(recv(client, buffer, 5, MSG_WAITALL) == 5 && strcmp(buffer, "hello") == 0);
  void* result;
  CHECK(pthread_join(thread, &result) == 0 && result != NULL);
  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && write(pair[0], "x", 1) == 1 && read(pair[1], buffer, 1) == 1);
  ok("sockets");
}

static void file_at(const char* path, const char* other) {
  char buffer[16] = "";
  FILE* file = fopen(path, "w+");
  CHECK(file && fputs("content", file) >= 0 && fflush(file) == 0 && fsync(fileno(file)) == 0);
  rewind(file);
  CHECK(fgets(buffer, sizeof buffer, file) && strcmp(buffer, "content") == 0 && fclose(file) == 0);
  CHECK(rename(path, other) == 0 && access(path, F_OK) != 0 && unlink(other) == 0);
}

static void memory_maps(void) {
  char name[] = "/tmp/mapped.XXXXXX";
  int file = mkstemp(name);
  CHECK(file >= 0 && ftruncate(file, 8192) == 0);
  char* shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(shared != MAP_FAILED);
  strcpy(shared + 4096, "mapped");
  char buffer[8] = "";
  CHECK(msync(shared, 8192, MS_SYNC) == 0 && pread(file, buffer, 6, 4096) == 6 && strcmp(buffer, "mapped") == 0);
  CHECK(munmap(shared, 8192) == 0 && unlink(name) == 0);
  char* anonymous = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(anonymous != MAP_FAILED && memset(anonymous, 1, 1 << 20) && mprotect(anonymous, 1 << 20, PROT_READ) == 0);
  int memory = shm_open("/abilities", O_CREAT | O_RDWR, 0600);
  CHECK(memory >= 0 && ftruncate(memory, 4096) == 0 && shm_unlink("/abilities") == 0);
  ok("mmap");
}

static volatile sig_atomic_t caught;
static void on_signal(int number) { caught = number; }

static void signals(void) {
  struct sigaction action = {.sa_handler = on_signal};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && kill(getpid(), SIGUSR1) == 0 && caught == SIGUSR1);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0)
    for (;;) pause();
  int status;
  CHECK(kill(child, SIGTERM) == 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
  ok("signals");
}

static void timers(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
  struct itimerspec soon = {.it_value.tv_nsec = 5000000};
  timer_t timer;
  siginfo_t info;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &soon, NULL) == 0);
  CHECK(sigwaitinfo(&set, &info) == SIGRTMIN && timer_delete(timer) == 0);
  struct timespec before, after, pause = {.tv_nsec = 5000000};
  clock_gettime(CLOCK_MONOTONIC, &before);
  CHECK(nanosleep(&pause, NULL) == 0 && clock_gettime(CLOCK_MONOTONIC, &after) == 0);
  CHECK((after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec >= 5000000);
  ok("timers");
}

static void locales(void) {
  CHECK(setlocale(LC_ALL, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0);
  wchar_t wide[4];
  CHECK(mbstowcs(wide, "\xc3\xa4\xe2\x82\xac", 4) == 2 && wide[0] == 0xe4 && wide[1] == 0x20ac);
  ok("locale");
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0); /* or a fork would print it twice */
  threads();
  subprocess();
  sockets();
  file_at("file.c.txt", "file.c.other");
  ok("files");
  file_at("/tmp/file.c.txt", "/tmp/file.c.other");
  ok("tmp");
  memory_maps();
  signals();
  timers();
  locales();
  cpu_set_t set;
  /* sysconf(_SC_NPROCESSORS_ONLN) counts those of the host, in /sys or /proc/stat: only the affinity says what this
     process may use. */
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
  printf("cpus %d\n", CPU_COUNT(&set));
  puts("done");
}
