// What Node programs need of a kernel. Prints a line for each ability that works; dies at the first that does not. Node has no
// mmap for programs: its heap and WebAssembly's memory are `heap`.
'use strict';
const assert = require('assert');
const {execFileSync, spawn} = require('child_process');
const {once} = require('events');
const fs = require('fs');
const net = require('net');
const os = require('os');
const path = require('path');
const {setTimeout: sleep} = require('timers/promises');
const {Worker} = require('worker_threads');

const ok = (ability) => console.log('ok ' + ability);

async function threads() {
  const shared = new SharedArrayBuffer(4);
  const source = `const {workerData} = require('worker_threads');
    for (let i = 0; i < 1000; ++i) Atomics.add(new Int32Array(workerData), 0, 1);`;
  const workers = [1, 2, 3].map(() => new Worker(source, {eval: true, workerData: shared}));
  for (const [code] of await Promise.all(workers.map((worker) => once(worker, 'exit')))) assert.strictEqual(code, 0);
  assert.strictEqual(new Int32Array(shared)[0], 3000);
  ok('threads');
}

async function subprocess() {
  assert.strictEqual(execFileSync('cat', {input: 'in'}).toString(), 'in');
  const [code] = await once(spawn('sh', ['-c', 'exit 3']), 'exit');
  assert.strictEqual(code, 3);
  ok('subprocess');
}

async function sockets() {
  for (const address of [{port: 0, host: '127.0.0.1'}, {path: '/tmp/abilities.socket'}]) {
    const server = net.createServer((connection) => connection.pipe(connection)).listen(address);
    await once(server, 'listening');
    const client = net.connect(address.path ? address : server.address());
    client.end('hello');
    let text = '';
    for await (const chunk of client) text += chunk;
    assert.strictEqual(text, 'hello');
    server.close();
  }
  ok('sockets');
}

async function files(directory) {
  const inner = fs.mkdtempSync(path.join(directory, 'abilities-'));
  const file = path.join(inner, 'file');
  await fs.promises.writeFile(file, 'content'); // by libuv's threads
  fs.copyFileSync(file, file + '2');
  assert.strictEqual(fs.readFileSync(file + '2', 'utf8'), 'content');
  assert.deepStrictEqual(fs.readdirSync(inner).sort(), ['file', 'file2']);
  fs.rmSync(inner, {recursive: true});
}

function memory() {
  const pages = new WebAssembly.Memory({initial: 16, maximum: 256});
  assert.strictEqual(pages.grow(16), 16);
  assert.strictEqual(Buffer.alloc(32 << 20, 1).at(-1), 1);
  ok('heap');
}

async function signals() {
  const caught = once(process, 'SIGUSR2');
  process.kill(process.pid, 'SIGUSR2');
  const alive = setTimeout(() => {}, 60000);
  await caught;
  clearTimeout(alive);
  const child = spawn('sleep', ['1000']);
  child.kill();
  assert.strictEqual((await once(child, 'exit'))[1], 'SIGTERM');
  ok('signals');
}

async function timers() {
  const before = process.hrtime.bigint();
  await sleep(10);
  assert(process.hrtime.bigint() - before >= 8000000n);
  ok('timers');
}

function locales() {
  assert.strictEqual(new Intl.NumberFormat('de-DE').format(1234.5), '1.234,5');
  assert.deepStrictEqual(['z', 'ä', 'a'].sort(new Intl.Collator('de').compare), ['a', 'ä', 'z']);
  ok('locale');
}

(async () => {
  await threads();
  await subprocess();
  await sockets();
  await files('.');
  ok('files');
  await files('/tmp');
  ok('tmp');
  memory();
  await signals();
  await timers();
  locales();
  // os.cpus() is a list of /proc/cpuinfo, which shows those of the host; the function that counts came with Node 18.14.
  console.log('cpus ' + (os.availableParallelism ? os.availableParallelism() : execFileSync('nproc').toString().trim()));
  console.log('done');
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
