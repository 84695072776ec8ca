// Is there room, and why not?
import { html } from "../html.js";
import * as f from "../format.js";
import { address } from "../address.js";
import { Age, AmountBar, Answer, Empty, Figure, Panel, PodLink, StateKey } from "../parts.js";
import { Chart } from "../chart.js";
import { DataTable } from "../table.js";

export function Overview({ data, now }) {
  return html`
    <${Room} data=${data} />
    <${Why} data=${data} now=${now} />
    <${Figures} data=${data} now=${now} />
    <div class="columns is-wide-left">
      <${Models} models=${data.models} />
      <${Reasons} reasons=${data.reasons} waiting=${data.waiting} />
    </div>
    <${History} history=${data.history} />`;
}

function Room({ data }) {
  const devices = Object.entries(data.devices);
  if (!devices.length) {
    return html`<${Answer} tone="warn">There is no room: no node has GPUs.<//>`;
  }
  if (!devices.some(([, { free }]) => free > 0)) {
    return html`<${Answer} tone="bad">There is no room: no device is free on ${f.plural(data.nodes.withDevices, "node")}.<//>`;
  }
  const best = data.models.reduce((one, other) => (other.largest > one.largest ? other : one));
  const gpus = data.devices.gpu?.free ?? 0;
  const slice = largestSlice(data);
  if (!gpus) return html`<${Answer} tone="good">There is room for slices up to ${slice}; no whole GPU is free.<//>`;
  return html`<${Answer} tone="good">There is room: ${f.plural(gpus, "GPU")} free, the largest block is
    ${" "}${f.plural(best.largest, "GPU")} on <${NodeLink} node=${best.largestNode} />${slice && `; slices up to ${slice}`}.<//>`;
}

/** The largest profile of which one is free; counts of profiles cannot be added, as they share GPUs. */
function largestSlice({ models }) {
  const size = (profile) => profile.split(".").map((part) => Number.parseInt(part, 10) || 0);
  return models.map((model) => model.largestSlice).filter(Boolean)
    .reduce((one, other) => (size(one)[1] * 100 + size(one)[0] >= size(other)[1] * 100 + size(other)[0] ? one : other), "");
}

function Why({ data: { waiting, reasons }, now }) {
  if (!waiting.pods) return html`<p class="why">No pod waits.</p>`;
  const [first] = reasons;
  const asks = f.devices(waiting.devices);
  return html`<p class="why">
    <a href=${address("waiting")}>${f.plural(waiting.pods, "pod")} ${waiting.pods === 1 ? "waits" : "wait"}</a>${asks && ` for ${asks}`}${waiting.oldestPod && html`,
    the oldest, <${PodLink} ...${waiting.oldestPod} />, for <${Age} since=${waiting.oldest} now=${now} />`}.
    ${first && first.code !== "NEW" && html` Most often: ${first.meaning} (${f.plural(first.pods, "pod")}).`}</p>`;
}

const NodeLink = ({ node }) => html`<a class="mono" href=${address("nodes", { node })}>${node}</a>`;

function Figures({ data, now }) {
  const { devices, waiting, nodes } = data;
  const gpu = devices.gpu;
  const slices = Object.entries(devices).filter(([unit]) => unit !== "gpu").map(([, one]) => one);
  const sum = (name) => slices.reduce((total, one) => total + one[name], 0);
  const failed = (gpu?.failed ?? 0) + sum("failed");
  return html`<dl class="figures">
    ${gpu && html`<${Figure} label="GPUs held" value=${f.number(gpu.held)} unit="of ${f.number(gpu.total)}"
      note=${f.percent(gpu.held, gpu.total)} />
      <${Figure} label="GPUs free" value=${f.number(gpu.free)} note=${f.percent(gpu.free, gpu.total)} />`}
    ${slices.length > 0 && html`<${Figure} label="Slices held" value=${f.number(sum("held"))}
      note="largest free: ${largestSlice(data) || "none"}" />`}
    <${Figure} label="Failed" value=${f.number(failed)} tone=${failed ? "bad" : "plain"}
      note=${failed ? "devices" : "no device"} />
    <${Figure} label="Nodes not available" value=${f.number(nodes.unavailable)}
      unit="of ${f.number(nodes.withDevices)}" tone=${nodes.unavailable ? "warn" : "plain"} />
    <${Figure} label="Waiting pods" value=${f.number(waiting.pods)} tone=${waiting.pods ? "warn" : "plain"}
      note=${waiting.oldest ? html`oldest <${Age} since=${waiting.oldest} now=${now} />` : "none"} />
  </dl>`;
}

const SIZES = ["8", "4", "2", "1"];

function Models({ models }) {
  const columns = [
    { key: "model", title: "Model", nowrap: true, cell: ({ name, product, nodes }) => html`
      <a href=${address("nodes", { model: name })} title=${product}>${name || "unknown model"}</a>
      <div class="note">${f.plural(nodes, "node")}</div>` },
    { key: "devices", title: "Devices", cell: ({ devices }) => Object.entries(devices).map(([unit, amounts]) => html`
      <div class="device-row" key=${unit}><span class="device-name">${f.unitName(unit)}</span>
        <${AmountBar} amounts=${amounts} unit=${unit} />
        <span class="device-count">${f.number(amounts.free)} free of ${f.number(amounts.total)}</span></div>`) },
    ...SIZES.map((size) => ({
      key: `fits${size}`, numeric: true, title: size === "1" ? "1 GPU" : `${size} GPUs`,
      cell: ({ fits }) => fits[size] === undefined ? html`<span class="muted">${f.NONE}</span>`
        : html`<span class=${fits[size] ? "" : "zero"}>${f.number(fits[size])}</span>`,
    })),
    { key: "largest", title: "Largest free block", nowrap: true, cell: (model) => largest(model) },
  ];
  return html`<${Panel} id="models" title="What would start now"
      note="How many pods with 8, 4, 2 or 1 GPUs would start, each size alone.">
    <${DataTable} caption="Room by model" columns=${columns} rows=${models} keyOf=${({ product }) => product}
      empty="No node has GPUs." />
    <${StateKey} />
  <//>`;
}

function largest({ largest: count, largestNode, largestSlice }) {
  if (count > 0) return html`${f.plural(count, "GPU")} on <${NodeLink} node=${largestNode} />`;
  if (largestSlice) return html`slice ${largestSlice}`;
  return html`<span class="muted">none</span>`;
}

function History({ history: { times, gpus, slices, waitingPods, stepS } }) {
  const kinds = [["GPUs", gpus], ["MIG slices", slices]].filter(([, one]) => one.total.some((count) => count > 0));
  return html`<${Panel} id="history" title="Last 24 hours" note="In the leader's memory: it begins when a replica becomes the leader.">
    ${times.length < 2 && html`<${Empty}>The leader has recorded ${f.plural(times.length, "point")} until now, one each ${f.duration(stepS)}.<//>`}
    ${times.length >= 2 && html`<div class="charts">
      ${kinds.map(([name, columns]) => html`<div key=${name}><h3>${name}</h3>
        <${Chart} title="${name} in the last 24 hours" height=${150} times=${times} stepS=${stepS} series=${[
          ...(columns === gpus ? [{ label: "total", values: columns.total, tone: "series-total", dash: [4, 4] }] : []),
          { label: "held", values: columns.held, tone: "series-held", fills: true },
          { label: "failed", values: columns.failed, tone: "series-failed" },
        ]} /></div>`)}
      <div><h3>Waiting pods</h3>
        <${Chart} title="Waiting pods in the last 24 hours" height=${150} times=${times} stepS=${stepS}
          series=${[{ label: "waiting", values: waitingPods, tone: "series-waiting", fills: true }]} /></div>
    </div>`}
  <//>`;
}

function Reasons({ reasons, waiting }) {
  const most = Math.max(1, ...reasons.map(({ pods }) => pods));
  return html`<${Panel} id="reasons" title="Why pods wait" note="The five most frequent reasons.">
    ${!reasons.length && html`<${Empty}>No pod waits.<//>`}
    <ol class="reasons">${reasons.map(({ code, meaning, nextStep, pods, devices }) => html`
      <li key=${code}>
        <div class="reason-head"><a href=${address("waiting", { code })}>${f.codeName(code)}</a>
          <span class="reason-count">${f.plural(pods, "pod")}${f.devices(devices) && `, ${f.devices(devices)}`}</span></div>
        <div class="bar thin" aria-hidden="true"><span class="seg seg-waiting" style=${{ flexGrow: pods }}></span>
          <span class="seg" style=${{ flexGrow: most - pods }}></span></div>
        ${code !== "NEW" && html`<p>${meaning}</p>`}
        ${nextStep && html`<p class="note">${nextStep}</p>`}
      </li>`)}</ol>
    ${waiting.pods > 0 && html`<p class="more"><a href=${address("waiting")}>All waiting pods, in their order</a></p>`}
  <//>`;
}
