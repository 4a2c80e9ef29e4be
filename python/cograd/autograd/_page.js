// SPDX-License-Identifier: BSD-3-Clause
// What the pages of a graph and of a profile share; it is written into each.
const byId = (id) => document.getElementById(id);

async function unpack(text, Kind) {
  const raw = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Kind(await new Response(stream).arrayBuffer());
}
function bytes(n) {
  const sign = n < 0 ? "-" : "", units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let u = 0;
  n = Math.abs(n);
  while (n >= 1024 && u < 4) { n /= 1024; u++; }
  return sign + (u ? n.toFixed(1) : n) + " " + units[u];
}
