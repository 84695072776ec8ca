// Who holds what, by namespace: guaranteed, waiting, degraded, idle and its cost.
import { html } from "../html.js";
import * as f from "../format.js";
import { address } from "../address.js";
import { Age, Answer, Badge, Meter, Panel, Search } from "../parts.js";
import { DataTable } from "../table.js";

export function Teams({ data, query, set, now }) {
  const { teams } = data;
  const text = (query.q ?? "").toLowerCase();
  const rows = teams.filter(({ namespace }) => namespace.toLowerCase().includes(text));
  return html`
    <${Most} teams=${teams} />
    <div class="toolbar">
      <${Search} label="Namespace" name="q" placeholder="name" query=${query} set=${set} />
      <button type="button" class="secondary" onClick=${() => download(rows)}>Download as CSV</button>
    </div>
    <${Panel} id="teams" title="Namespaces" note="Most devices first. Guaranteed is the ResourceQuota of the namespace.">
      <${DataTable} caption="Devices by namespace" columns=${columns(teams, now)} rows=${rows} query=${query} set=${set}
        keyOf=${({ namespace }) => namespace} empty=${teams.length ? "No namespace matches the search." : "No namespace holds or requests a device."} />
      ${data.leftOut > 0 && html`<p class="note">${f.plural(data.leftOut, "further namespace")} not listed.</p>`}
    <//>`;
}

function Most({ teams }) {
  const [first] = teams;
  if (!first) return html`<${Answer}>No namespace holds or requests a device.<//>`;
  const waiting = teams.filter(({ waitingPods }) => waitingPods > 0);
  const full = teams.filter(({ quotas }) => quotas.some(({ used, hard }) => used >= hard));
  const degraded = teams.reduce((sum, { degraded: pods }) => sum + total(pods), 0);
  const held = f.devices(first.held);
  return html`<${Answer}>${held ? html`<strong>${first.namespace}</strong> holds most: ${held}.` : "No namespace holds a device."}<//>
    <p class="why">${waiting.length ? `${f.plural(waiting.length, "namespace")} ${waiting.length === 1 ? "has" : "have"} waiting pods` : "No namespace has a waiting pod"}${full.length
      ? `; the quota of ${full.map(({ namespace }) => namespace).join(", ")} is used up` : ""}${degraded ? `; ${f.plural(degraded, "pod")} ${degraded === 1 ? "has" : "have"} a smaller device than requested` : ""}.</p>`;
}

const total = (counts) => Object.values(counts).reduce((sum, count) => sum + count, 0);
const whole = ({ held }) => held.gpu ?? 0;
const muted = html`<span class="muted">${f.NONE}</span>`;

function columns(teams, now) {
  const most = Math.max(1, ...teams.map(whole));
  const all = [
    { key: "namespace", title: "Namespace", sort: ({ namespace }) => namespace, cell: ({ namespace }) => html`<a href=${address("nodes", { ns: namespace })}>${namespace}</a>` },
    { key: "pods", title: "Pods", numeric: true, wide: true, sort: ({ pods }) => -pods, cell: ({ pods }) => f.number(pods) },
    { key: "gpus", title: "GPUs held", sort: (team) => -whole(team), cell: (team) => whole(team) ? html`<div class="held-cell">
      <span class="numeric">${f.number(whole(team))}</span><${Meter} value=${whole(team)} max=${most * 1.0001} label="${whole(team)} GPUs" /></div>` : muted },
    { key: "slices", title: "Slices held", cell: ({ held: { gpu: _, ...slices } }) => f.devices(slices) || muted },
    { key: "guaranteed", title: "Guaranteed", cell: ({ quotas }) => quotas.length ? quotas.map((quota) => html`<${Quota} key=${quota.quota + quota.device} quota=${quota} />`) : html`<span class="muted">no quota</span>` },
    { key: "waiting", title: "Waiting", sort: ({ waitingPods }) => -waitingPods, cell: (team) => waits(team) },
    { key: "oldest", title: "Oldest", numeric: true, sort: ({ oldest }) => (oldest ? Date.parse(oldest) : Infinity), cell: ({ oldest }) => html`<${Age} since=${oldest} now=${now} />` },
    { key: "degraded", title: "Degraded", sort: ({ degraded }) => -total(degraded), cell: ({ degraded }) => total(degraded) ? html`<${Badge} tone="warn">${f.plural(total(degraded), "pod")}<//> <span class="note">with ${Object.keys(degraded).join(", ")}</span>` : muted },
  ];
  if (teams.some(({ idle }) => idle !== null)) all.push({ key: "idle", title: "Idle", numeric: true, cell: ({ idle }) => shown(idle) });
  if (teams.some(({ cost }) => cost !== null)) all.push({ key: "cost", title: "Cost per hour", numeric: true, sort: ({ cost }) => -(cost?.perHour ?? 0), cell: ({ cost }) => cost ? html`<${Cost} cost=${cost} />` : muted });
  return all;
}

const shown = (value) => (value === null ? muted : typeof value === "number" ? f.number(value) : String(value));

function Cost({ cost: { perHour, currency, unpriced, savedPerHour } }) {
  return html`${f.money(perHour, currency)}${unpriced > 0 && html`<br /><span class="note">and ${f.plural(unpriced, "GPU")} without a price</span>`}${savedPerHour > 0
    && html`<br /><span class="note">smaller slices save ${f.money(savedPerHour, currency)}</span>`}`;
}

function waits({ namespace, waitingPods, waitingDevices }) {
  if (!waitingPods) return muted;
  return html`<a href=${address("waiting", { ns: namespace })}>${f.plural(waitingPods, "pod")}</a>
    ${f.devices(waitingDevices) && html` <span class="note">${f.devices(waitingDevices)}</span>`}`;
}

function Quota({ quota: { quota, device, used, hard, scoped } }) {
  const text = `${f.number(used)} of ${f.number(hard)} ${f.unitName(device)}`;
  return html`<div class="quota"><span>${text}${scoped && html` <span class="note">(scoped)</span>`}${used >= hard && html` <${Badge} tone="warn">used up<//>`}</span>
    <${Meter} value=${used} max=${hard} label="ResourceQuota ${quota}: ${text}" /></div>`;
}

function download(teams) {
  const table = [
    ["namespace", "pods", "held", "guaranteed", "waiting_pods", "waiting", "oldest", "degraded", "cost_per_hour", "currency"],
    ...teams.map((team) => [
      team.namespace, team.pods, f.devices(team.held),
      team.quotas.map(({ device, used, hard }) => `${used} of ${hard} ${device}`).join("; "),
      team.waitingPods, f.devices(team.waitingDevices), team.oldest ?? "", f.devices(team.degraded), team.cost?.perHour ?? "", team.cost?.currency ?? "",
    ]),
  ];
  const url = URL.createObjectURL(new Blob([f.csv(table)], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = "gpu-scheduler-teams.csv";
  link.click();
  URL.revokeObjectURL(url);
}
