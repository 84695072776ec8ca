// One node beside the squares: who sits on which GPU, and since when.
import { html } from "../html.js";
import * as f from "../format.js";
import { address } from "../address.js";
import { Age, Badge, Command, PodLink } from "../parts.js";

export function NodeDetail({ node, marks, query, now }) {
  return html`<aside class="panel detail" aria-labelledby="detail">
    <div class="panel-head"><h2 id="detail" class="mono">${node.node}</h2>
      <div class="panel-aside"><a class="close" href=${address("nodes", { ...query, node: "" })}>Close</a></div></div>
    <dl class="lines">
      <div><dt>model</dt><dd>${node.model || "unknown"}${node.memoryMib > 0 && `, ${f.memory(node.memoryMib)} of memory`}</dd></div>
      ${node.zone && html`<div><dt>zone</dt><dd>${node.zone}</dd></div>`}
      <div><dt>state</dt><dd><${Badge} tone=${node.state === "ready" ? "good" : "warn"}>${node.state}<//>
        ${node.problem && node.problem !== node.state && ` ${node.problem}`}</dd></div>
      ${node.taints.length > 0 && html`<div><dt>taints</dt><dd class="mono">${node.taints.join(", ")}</dd></div>`}
      <div><dt>largest free</dt><dd>${node.largestFree ? f.amount(node.largestFree.unit, node.largestFree.count) : "nothing"}</dd></div>
      ${Object.entries(node.devices).map(([unit, amounts]) => html`<div key=${unit}><dt>${f.unitName(unit)}</dt><dd>${f.states(amounts)}</dd></div>`)}
    </dl>
    ${node.isNumbered ? html`<${ByGpu} node=${node} marks=${marks} now=${now} />` : html`<${ByPod} node=${node} marks=${marks} now=${now} />`}
    <ul class="commands"><${Command} text="the node's object" command="kubectl describe node ${node.node}" /></ul>
  </aside>`;
}

const Holder = ({ holder, marks, now }) => html`<div class="holder">
  <span class="sq is-held colour-${marks[holder.namespace]?.colour ?? "none"}" aria-hidden="true">${marks[holder.namespace]?.letter}</span>
  <span><${PodLink} ...${holder} />${holder.since && html` <span class="note">for <${Age} since=${holder.since} now=${now} /></span>`}</span></div>`;

function ByGpu({ node, marks, now }) {
  return html`<table class="detail-table"><caption class="visually-hidden">GPUs of ${node.node}</caption>
    <thead><tr><th scope="col">GPU</th><th scope="col">Held by</th></tr></thead>
    <tbody>
      ${node.gpus.map((gpu) => html`<tr key=${gpu.index}><th scope="row" class="numeric">${gpu.index}</th><td>${content(node, gpu, marks, now)}</td></tr>`)}
      ${node.slices.map((slice, at) => html`<tr key="s${at}"><th scope="row">${slice.profile}</th><td>${held(node, slice, marks, now)}</td></tr>`)}
    </tbody></table>`;
}

function content(node, gpu, marks, now) {
  if (gpu.slices?.length) {
    return gpu.slices.map((slice, at) => html`<div class="slice" key=${at}><span class="mono">${slice.profile}</span>${held(node, slice, marks, now)}</div>`);
  }
  if (!gpu.holders.length) return html`<span class="state-name">${gpu.state}</span>`;
  return gpu.holders.map((at) => html`<${Holder} key=${at} holder=${node.holders[at]} marks=${marks} now=${now} />`);
}

function held(node, { state, holder }, marks, now) {
  const by = node.holders[holder];
  if (by) return html`<${Holder} holder=${by} marks=${marks} now=${now} />`;
  return html`<span class="state-name">${{ idle: "exists without a pod" }[state] ?? state}</span>`;
}

function ByPod({ node, marks, now }) {
  return html`<p class="note">The kubelet chooses the GPUs of this node, so only the counts are known.</p>
    <table class="detail-table"><caption class="visually-hidden">Pods with devices on ${node.node}</caption>
      <thead><tr><th scope="col">Pod</th><th scope="col">Holds</th></tr></thead>
      <tbody>${node.holders.map((holder, at) => html`<tr key=${at}><th scope="row"><${Holder} holder=${holder} marks=${marks} now=${now} /></th>
        <td>${f.devices(holder.devices)}</td></tr>`)}
        ${!node.holders.length && html`<tr><td colspan="2">no pod holds a device</td></tr>`}</tbody></table>`;
}
