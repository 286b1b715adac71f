// What Rust programs need of a kernel, by the standard library and, for what it lacks, the C library's own functions. Prints a
// line for each ability that works; dies at the first that does not. Rust has no locales.
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::raw::{c_int, c_void};
use std::os::unix::io::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

extern "C" {
    fn mmap(address: *mut c_void, size: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void;
    fn munmap(address: *mut c_void, size: usize) -> c_int;
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> usize;
    fn raise(number: c_int) -> c_int;
}
const SIGUSR1: c_int = 10;
const SIGKILL: c_int = 9;

fn ok(ability: &str) {
    println!("ok {}", ability);
}

fn threads() {
    let counter = Arc::new(Mutex::new(0));
    let all: Vec<_> = (0..8)
        .map(|_| {
            let counter = Arc::clone(&counter);
            thread::spawn(move || (0..1000).for_each(|_| *counter.lock().unwrap() += 1))
        })
        .collect();
    all.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(*counter.lock().unwrap(), 8000);
    ok("threads");
}

fn subprocess() {
    let output = Command::new("sh").args(["-c", "echo from a child; exit 3"]).output().unwrap();
    assert_eq!(output.stdout, b"from a child\n");
    assert_eq!(output.status.code(), Some(3));
    ok("subprocess");
}

fn sockets() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let answer = thread::spawn(move || {
        let (mut connection, _) = server.accept().unwrap();
        let mut buffer = [0; 5];
        connection.read_exact(&mut buffer).unwrap();
        connection.write_all(&buffer).unwrap();
    });
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"hello").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    answer.join().unwrap();
    assert_eq!(text, "hello");
    let (mut a, mut b) = UnixStream::pair().unwrap();
    a.write_all(b"x").unwrap();
    b.read_exact(&mut [0]).unwrap();
    ok("sockets");
}

fn files(directory: &str) {
    let inner = Path::new(directory).join("abilities-rust");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("file"), "content").unwrap();
    fs::copy(inner.join("file"), inner.join("copy")).unwrap();
    assert_eq!(fs::read_to_string(inner.join("copy")).unwrap(), "content");
    assert_eq!(fs::read_dir(&inner).unwrap().count(), 2);
    fs::remove_dir_all(&inner).unwrap();
}

fn memory_maps() {
    let mut file = fs::OpenOptions::new().read(true).write(true).create(true).open("/tmp/mapped").unwrap();
    file.set_len(4096).unwrap();
    unsafe {
        let map = mmap(std::ptr::null_mut(), 4096, 3, 1, file.as_raw_fd(), 0); // read and write, shared
        assert_ne!(map as isize, -1);
        *(map as *mut u8) = b'm';
        assert_eq!(munmap(map, 4096), 0);
    }
    let mut byte = [0];
    file.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"m");
    ok("mmap");
}

static CAUGHT: AtomicI32 = AtomicI32::new(0);
extern "C" fn on_signal(number: c_int) {
    CAUGHT.store(number, Ordering::SeqCst);
}

fn signals() {
    unsafe {
        signal(SIGUSR1, on_signal);
        assert_eq!(raise(SIGUSR1), 0);
    }
    assert_eq!(CAUGHT.load(Ordering::SeqCst), SIGUSR1);
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(SIGKILL));
    ok("signals");
}

fn timers() {
    let before = Instant::now();
    thread::sleep(Duration::from_millis(5));
    let (_sender, receiver) = mpsc::channel::<()>();
    assert!(receiver.recv_timeout(Duration::from_millis(5)).is_err());
    assert!(before.elapsed() >= Duration::from_millis(10));
    ok("timers");
}

fn main() {
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
    println!("cpus {}", thread::available_parallelism().unwrap());
    println!("done");
}
