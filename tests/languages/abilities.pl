# What Perl programs need of a kernel. Prints a line for each ability that works; dies at the first that does not. mmap is
# that of a file's layer; System V memory is `shm`.
use strict;
use warnings;
use threads;
use threads::shared;
use File::Temp qw(tempdir);
use I18N::Langinfo qw(langinfo CODESET);
use IO::Socket::INET;
use IPC::Open3;
use POSIX qw(setlocale LC_ALL SIGTERM);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC sleep setitimer ITIMER_REAL);

$| = 1;
sub ok { print "ok $_[0]\n" }

{
  my $counter : shared = 0;
  my @all = map { threads->create(sub { for (1 .. 1000) { lock $counter; $counter++ } }) } 1 .. 4;
  $_->join for @all;
  die "the threads' sum: $counter" unless $counter == 4000;
  ok 'threads';
}
{
  die 'output' unless `echo from a child` eq "from a child\n";
  my $pid = open3(my $in, my $out, undef, 'cat');
  print $in 'in';
  close $in;
  die 'open3' unless <$out> eq 'in';
  waitpid $pid, 0;
  die 'exit code' unless system('sh', '-c', 'exit 3') == 3 << 8;
  ok 'subprocess';
}
{
  my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1) or die "server: $@";
  my $pid = fork // die "fork: $!";
  if (!$pid) {
    my $connection = $server->accept or POSIX::_exit(1);
    print $connection uc <$connection>;
    close $connection;
    POSIX::_exit(0);
  }
  my $client = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->sockport) or die "client: $@";
  print $client "hello\n";
  die 'answer' unless <$client> eq "HELLO\n";
  waitpid $pid, 0;
  die 'server' if $?;
  ok 'sockets';
}
for (['.', 'files'], ['/tmp', 'tmp']) {
  my $inner = tempdir(DIR => $_->[0], CLEANUP => 1);
  open my $file, '>', "$inner/file" or die $!;
  print $file 'content';
  close $file or die $!;
  rename "$inner/file", "$inner/moved" or die $!;
  open $file, '<', "$inner/moved" or die $!;
  die 'what was written' unless <$file> eq 'content';
  ok $_->[1];
}
{
  use IPC::SysV qw(IPC_PRIVATE IPC_RMID S_IRUSR S_IWUSR);
  my $id = shmget(IPC_PRIVATE, 4096, S_IRUSR | S_IWUSR) // die "shmget: $!";
  shmwrite $id, 'mapped', 0, 6 or die $!;
  shmread $id, my $text, 0, 6 or die $!;
  shmctl $id, IPC_RMID, 0 or die $!;
  die 'shared memory' unless $text eq 'mapped';
  ok 'shm';
  open my $file, '<:mmap', $0 or die $!;
  my @lines = <$file>;
  die 'mapped file' unless $lines[-1] =~ /done/;
  ok 'mmap';
}
{
  my $caught = '';
  local $SIG{USR1} = sub { $caught = shift };
  kill USR1 => $$;
  die 'signal' unless $caught eq 'USR1';
  my $pid = fork // die "fork: $!";
  if (!$pid) { { exec 'sleep', '1000' } POSIX::_exit(1) }
  kill TERM => $pid;
  waitpid $pid, 0;
  die 'child' unless ($? & 127) == SIGTERM;
  ok 'signals';
}
{
  my ($rung, $before) = (0, clock_gettime(CLOCK_MONOTONIC));
  local $SIG{ALRM} = sub { $rung = 1 };
  setitimer(ITIMER_REAL, 0.005);
  sleep 0.05 until $rung;
  die 'clock' unless clock_gettime(CLOCK_MONOTONIC) - $before >= 0.004;
  ok 'timers';
}
{
  die 'locale' unless setlocale(LC_ALL, '') eq 'C.UTF-8' && langinfo(CODESET) eq 'UTF-8';
  ok 'locale';
}
chomp(my $cpus = `nproc`);
print "cpus $cpus\ndone\n";
