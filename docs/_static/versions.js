// SPDX-License-Identifier: BSD-3-Clause
// Adds a version menu if the docs of other versions are next to these (see versions.json).
"use strict";
(async () => {
  const root = new URL(document.documentElement.dataset.content_root || "./", location.href);
  let versions;
  try {
    versions = await (await fetch(new URL("../versions.json", root))).json();
  } catch {
    return;  // there are no other versions
  }
  const here = root.pathname.split("/").filter(Boolean).pop();
  const page = location.pathname.slice(root.pathname.length);
  const select = document.createElement("select");
  select.id = "versions";
  select.ariaLabel = "Version of the documentation";
  select.style.margin = "0.25rem 1rem";
  for (const { name, title } of versions) select.add(new Option(title, name, false, name === here));
  select.onchange = async () => {
    const to = new URL(`../${select.value}/`, root), same = new URL(page, to);
    const found = await fetch(same, { method: "HEAD" }).catch(() => ({ ok: false }));
    location.href = found.ok ? same : to;
  };
  document.querySelector(".sidebar-brand")?.after(select);
})();
