// What Java programs need of a kernel. Prints a line for each ability that works; dies at the first that does not.
import java.io.RandomAccessFile;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.Charset;
import java.nio.file.Files;
import java.nio.file.Path;
import java.text.Collator;
import java.text.NumberFormat;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

public class Abilities {
  static void ok(String ability) {
    System.out.println("ok " + ability);
  }

  static void check(boolean condition, String what) {
    if (!condition) throw new AssertionError(what);
  }

  static void threads() throws Exception {
    AtomicInteger counter = new AtomicInteger();
    ExecutorService pool = Executors.newFixedThreadPool(8);
    List<Future<?>> all = new ArrayList<>();
    for (int i = 0; i < 8; ++i) {
      all.add(pool.submit(() -> {
        for (int j = 0; j < 1000; ++j) counter.incrementAndGet();
      }));
    }
    for (Future<?> one : all) one.get();
    pool.shutdown();
    check(counter.get() == 8000, "the threads' sum");
    ok("threads");
  }

  static void subprocess() throws Exception {
    Process child = new ProcessBuilder("sh", "-c", "echo from a child; exit 3").start();
    check(new String(child.getInputStream().readAllBytes()).equals("from a child\n"), "output");
    check(child.waitFor() == 3, "the exit code");
    ok("subprocess");
  }

  static void sockets() throws Exception {
    try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
      Thread answer = new Thread(() -> {
        try (Socket connection = server.accept()) {
          connection.getOutputStream().write(connection.getInputStream().readNBytes(5));
        } catch (Exception error) {
          throw new RuntimeException(error);
        }
      });
      answer.start();
      try (Socket client = new Socket(server.getInetAddress(), server.getLocalPort())) {
        client.getOutputStream().write("hello".getBytes());
        check(new String(client.getInputStream().readAllBytes()).equals("hello"), "the answer");
      }
      answer.join();
    }
    ok("sockets");
  }

  static void files(String directory) throws Exception {
    Path inner = Files.createTempDirectory(Path.of(directory), "abilities-");
    Path file = inner.resolve("file");
    Files.writeString(file, "content");
    Files.move(file, inner.resolve("moved"));
    check(Files.readString(inner.resolve("moved")).equals("content"), "what was written");
    check(Files.getPosixFilePermissions(inner).size() == 3, "the directory's mode");
    Files.delete(inner.resolve("moved"));
    Files.delete(inner);
  }

  static void memoryMaps() throws Exception {
    Path path = Files.createTempFile("mapped", null);
    try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw")) {
      MappedByteBuffer map = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, 8192);
      map.put(4096, (byte) 42);
      map.force();
      file.seek(4096);
      check(file.read() == 42, "the map's content");
    }
    check(ByteBuffer.allocateDirect(16 << 20).capacity() == 16 << 20, "memory outside the heap");
    ok("mmap");
  }

  static void signals() throws Exception {
    CountDownLatch caught = new CountDownLatch(1);
    sun.misc.Signal.handle(new sun.misc.Signal("USR2"), signal -> caught.countDown());
    sun.misc.Signal.raise(new sun.misc.Signal("USR2"));
    check(caught.await(60, TimeUnit.SECONDS), "a signal");
    Process child = new ProcessBuilder("sleep", "1000").start();
    child.destroy();
    check(child.waitFor() == 128 + 15, "the child's end");
    ok("signals");
  }

  static void timers() throws Exception {
    long before = System.nanoTime();
    ScheduledExecutorService scheduler = Executors.newSingleThreadScheduledExecutor();
    check(scheduler.schedule(() -> 42, 5, TimeUnit.MILLISECONDS).get() == 42, "a timer");
    scheduler.shutdown();
    check(System.nanoTime() - before >= 5_000_000, "the clock");
    ok("timers");
  }

  static void locales() throws Exception {
    check(Charset.defaultCharset().name().equals("UTF-8"), "the charset");
    check(NumberFormat.getInstance(Locale.GERMANY).format(1234.5).equals("1.234,5"), "a number");
    check(Collator.getInstance(Locale.GERMANY).compare("ä", "b") < 0, "an order");
    ok("locale");
  }

  public static void main(String[] arguments) throws Exception {
    threads();
    subprocess();
    sockets();
    files(".");
    ok("files");
    files("/tmp");
    ok("tmp");
    memoryMaps();
    signals();
    timers();
    locales();
    System.out.println("cpus " + Runtime.getRuntime().availableProcessors());
    System.out.println("done");
  }
}
