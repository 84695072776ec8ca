// Where is the room, how fragmented is it, and who sits where?
import { html } from "../html.js";
import * as f from "../format.js";
import { address } from "../address.js";
import { marks as markedNamespaces } from "../namespaces.js";
import { AmountBar, Answer, Choice, Empty, Panel, Search, Tabs } from "../parts.js";
import { NodeCard } from "../squares.js";
import { DataTable } from "../table.js";
import { NodeDetail } from "./node_detail.js";

// From this number of nodes on, names are left out unless a filter makes them fewer.
const DENSE_FROM = 100;
const VIEWS = [["", "Squares"], ["table", "Table"]];
const STATES = [
  ["room", "with room"], ["fragmented", "partly held"], ["full", "full"], ["failed", "with failed devices"],
  ["unavailable", "not available"],
];
const ORDERS = [["free", "most free"], ["least", "least free"], ["held", "most pods"]];

export function Nodes({ data, query, set, now }) {
  if (!data.nodes.length) return html`<${Answer} tone="warn">No node has GPUs or slices.<//>`;
  const shown = data.nodes.filter(matches(query)).sort(byOrder(query.order));
  const marks = markedNamespaces(data.namespaces);
  const selected = data.nodes.find(({ node }) => node === query.node);
  return html`
    <${Fragmentation} data=${data} />
    <div class="toolbar">
      <${Tabs} label="View" name="view" options=${VIEWS} query=${query} set=${set} />
      <${Filters} data=${data} query=${query} set=${set} />
    </div>
    <div class="with-detail ${selected ? "has-detail" : ""}">
      <div>
        ${query.view === "table"
          ? html`<${Table} nodes=${shown} total=${data.total} query=${query} set=${set} />`
          : html`<${Key} data=${data} marks=${marks} query=${query} />
            <${Groups} nodes=${shown} data=${data} marks=${marks} query=${query} set=${set} />`}
        ${data.leftOut > 0 && html`<p class="note">${f.plural(data.leftOut, "further node")} not listed.</p>`}
      </div>
      ${selected && html`<${NodeDetail} node=${selected} marks=${marks} query=${query} now=${now} />`}
    </div>`;
}

function Fragmentation({ data: { fragmentation: { freeGpus, onPartlyHeldNodes }, nodes, total } }) {
  const whole = nodes.filter(({ devices, state }) => state === "ready" && devices.gpu && devices.gpu.free === devices.gpu.total);
  const best = nodes.reduce((most, { largestFree }) => (largestFree?.unit === "gpu" ? Math.max(most, largestFree.count) : most), 0);
  if (!freeGpus) {
    return html`<${Answer} tone="warn">No whole GPU is free on ${f.plural(total, "node")}.<//>`;
  }
  return html`<${Answer} tone=${whole.length ? "good" : "warn"}>${f.plural(freeGpus, "GPU")} free, up to ${f.number(best)} on one node;${" "}
      ${whole.length ? `${f.plural(whole.length, "node")} ${whole.length === 1 ? "is" : "are"} empty` : "no node is empty"}.<//>
    <p class="why">${f.number(onPartlyHeldNodes)} of the free GPUs (${f.percent(onPartlyHeldNodes, freeGpus)}) are on nodes that other pods partly hold:${" "}
      only pods with fewer GPUs can use these.</p>`;
}

function Filters({ data, query, set }) {
  const plain = (values) => values.map((value) => [value, value]);
  return html`
    <${Search} label="Node" name="q" placeholder="name, pod or taint" query=${query} set=${set} />
    <${Choice} label="Model" name="model" all="all" options=${plain(data.models)} query=${query} set=${set} />
    ${data.zones.length > 0 && html`<${Choice} label="Zone" name="zone" all="all" options=${plain(data.zones)} query=${query} set=${set} />`}
    <${Choice} label="Namespace" name="ns" all="all" options=${plain(data.namespaces)} query=${query} set=${set} />
    <${Choice} label="State" name="state" all="all" options=${STATES} query=${query} set=${set} />
    <${Choice} label="Order" name="order" all="name" options=${ORDERS} query=${query} set=${set} />`;
}

const sum = ({ devices }, name) => Object.values(devices).reduce((total, one) => total + one[name], 0);

const STATE_TESTS = {
  room: (node) => node.state === "ready" && sum(node, "free") > 0,
  fragmented: (node) => sum(node, "free") > 0 && sum(node, "held") > 0,
  full: (node) => node.state === "ready" && sum(node, "free") === 0,
  failed: (node) => sum(node, "failed") > 0,
  unavailable: (node) => node.state !== "ready",
};

function matches({ q = "", model, zone, ns, state }) {
  const text = q.toLowerCase();
  return (node) =>
    (!model || node.model === model) && (!zone || node.zone === zone) &&
    (!ns || node.holders.some(({ namespace }) => namespace === ns)) &&
    (!state || (STATE_TESTS[state]?.(node) ?? true)) &&
    (!text || [node.node, ...node.taints, ...node.holders.map(({ pod }) => pod)].some((one) => one.toLowerCase().includes(text)));
}

function byOrder(order) {
  const name = (one, other) => one.node.localeCompare(other.node, "en", { numeric: true });
  if (order === "free") return (one, other) => sum(other, "free") - sum(one, "free") || name(one, other);
  if (order === "least") return (one, other) => sum(one, "free") - sum(other, "free") || name(one, other);
  if (order === "held") return (one, other) => other.holders.length - one.holders.length || name(one, other);
  return name;
}

function Key({ data: { namespaces }, marks, query }) {
  return html`<div class="keys">
    <ul class="key" aria-label="Namespaces">${namespaces.map((name) => {
      const isOn = query.ns === name;
      return html`<li key=${name}><a class=${isOn ? "is-on" : ""} aria-current=${isOn ? "true" : undefined}
          href=${address("nodes", { ...query, ns: isOn ? "" : name })}>
        <span class="sq is-held colour-${marks[name].colour}" aria-hidden="true">${marks[name].letter}</span>${name}</a></li>`;
    })}</ul>
    <ul class="key" aria-label="States">
      ${[["free", "free"], ["failed", "failed"], ["unavailable", "not available"], ["idle", "slice without a pod"], ["unknown", "not known"]].map(([state, text]) => html`
        <li key=${state}><span class="sq is-${state}" aria-hidden="true">${{ failed: "\u00d7", unknown: "?" }[state]}</span>${text}</li>`)}
    </ul></div>`;
}

function Groups({ nodes, data, marks, query, set }) {
  if (!nodes.length) return html`<${Empty}>No node matches these filters. <button type="button" onClick=${() => set(NO_FILTERS)}>Clear them</button><//>`;
  const dense = nodes.length >= DENSE_FROM;
  const groups = data.models.map((model) => [model, nodes.filter((node) => node.model === model)]);
  const others = nodes.filter(({ model }) => !data.models.includes(model));
  const shown = [...groups, ["other", others]].filter(([, members]) => members.length);
  const first = shown[0][1][0].node;
  const view = { marks, dense, query, stop: nodes.some(({ node }) => node === query.node) ? query.node : first };
  return html`<div onKeyDown=${moved}><p class="visually-hidden">Arrow keys move between nodes; Enter shows a node.</p>
    ${shown.map(([model, members]) => html`<${Group} key=${model} model=${model} nodes=${members} view=${view} />`)}</div>`;
}

// A group with more units has dynamic MIG: its profiles share the GPUs, so their counts say little.
const UNITS_MAX = 3;
const NO_FILTERS = { q: "", model: "", zone: "", ns: "", state: "" };

function Group({ model, nodes, view: { marks, dense, query, stop } }) {
  const units = {};
  for (const { devices } of nodes) {
    for (const [unit, amounts] of Object.entries(devices)) {
      units[unit] ??= { total: 0, held: 0, free: 0, failed: 0 };
      for (const name of Object.keys(units[unit])) units[unit][name] += amounts[name];
    }
  }
  const look = JSON.stringify([marks, dense, query.ns]);
  return html`<section class="group" aria-label=${model}>
    <h2>${model || "unknown model"} <span class="note">${f.plural(nodes.length, "node")}${Object.keys(units).length <= UNITS_MAX && Object.entries(units).map(([unit, amounts]) =>
      `, ${f.number(amounts.free)} of ${f.number(amounts.total)} ${f.unitName(unit)} free`)}</span></h2>
    <ul class="cards ${dense ? "is-dense" : ""}">${nodes.map((node) => {
      const isSelected = node.node === query.node;
      const target = address("nodes", { ...query, node: isSelected ? "" : node.node });
      const tabindex = node.node === stop ? 0 : -1;
      return html`<${NodeCard} key=${node.node} node=${node} marks=${marks} dense=${dense} namespace=${query.ns}
        target=${target} isSelected=${isSelected} tabindex=${tabindex} signature=${`${look}${target}${tabindex}${JSON.stringify(node)}`} />`;
    })}</ul></section>`;
}

/** One Tab stop for all nodes; arrows move by their place on the screen. */
function moved(event) {
  const from = event.target.closest("a[data-node]");
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 0, ArrowUp: 0, Home: 0, End: 0 }[event.key];
  if (!from || step === undefined) return;
  const all = [...event.currentTarget.querySelectorAll("a[data-node]")];
  const next = event.key === "Home" ? all[0] : event.key === "End" ? all.at(-1)
    : step ? all[all.indexOf(from) + step] : vertical(all, from, event.key === "ArrowDown");
  if (!next) return;
  event.preventDefault();
  from.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

function vertical(all, from, isDown) {
  const { left, top } = from.getBoundingClientRect();
  let best = null;
  let least = Infinity;
  for (const one of all) {
    const box = one.getBoundingClientRect();
    const down = isDown ? box.top - top : top - box.top;
    if (down <= 2) continue;
    const distance = down * 4 + Math.abs(box.left - left);
    if (distance < least) [best, least] = [one, distance];
  }
  return best;
}

function Table({ nodes, total, query, set }) {
  const columns = [
    { key: "node", title: "Node", sort: ({ node }) => node, cell: ({ node }) => html`<a class="mono" href=${address("nodes", { ...query, node })}>${node}</a>` },
    { key: "model", title: "Model", wide: true, sort: ({ model }) => model, cell: ({ model }) => model },
    { key: "zone", title: "Zone", wide: true, sort: ({ zone }) => zone, cell: ({ zone }) => zone || f.NONE },
    { key: "state", title: "State", sort: ({ state }) => state, cell: ({ state, problem }) => problem || state },
    { key: "devices", title: "Devices", cell: ({ devices }) => Object.entries(devices).map(([unit, amounts]) => html`
      <div class="device-row" key=${unit}><span class="device-name">${f.unitName(unit)}</span><${AmountBar} amounts=${amounts} unit=${unit} />
        <span class="device-count">${f.states(amounts)}</span></div>`) },
    { key: "free", title: "Free", numeric: true, sort: (node) => -sum(node, "free"), cell: (node) => f.number(sum(node, "free")) },
    { key: "largest", title: "Largest free", wide: true, sort: ({ largestFree }) => -(largestFree?.count ?? 0), cell: ({ largestFree }) => largestFree ? f.amount(largestFree.unit, largestFree.count) : f.NONE },
    { key: "holders", title: "Pods", numeric: true, sort: ({ holders }) => -holders.length, cell: ({ holders }) => f.number(holders.length) },
  ];
  return html`<${Panel} id="table" title="Nodes" note="${f.number(nodes.length)} of ${f.number(total)}">
    <${DataTable} caption="Nodes with devices" columns=${columns} rows=${nodes} query=${query} set=${set}
      keyOf=${({ node }) => node} rowClass=${({ node }) => (node === query.node ? "is-selected" : "")}
      empty="No node matches these filters." /><//>`;
}
