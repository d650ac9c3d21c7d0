// The demo's device: what it knew, what it drew, and what left; all of it is made here.
import { Device } from "./discreet-client.js";

const find = (id) => document.getElementById(id);
const show = (id, text) => {
  find(id).hidden = false;
  if (text !== undefined) find(id).textContent = text;
};

// Every request that this page makes is written down as it leaves.
const sent = [];
const send = globalThis.fetch;
globalThis.fetch = (url, options = {}) => {
  const line = { method: options.method ?? "GET", url, body: options.body };
  sent.push(line);
  return send(url, options);
};

const QUESTIONS = {
  gram: "what people like you look like (which direction your features point in)",
  moment: "how far the server's guess of your answer was off, and in which direction",
  square: "how large the server's error was, without its direction",
};

const bandit = decodeURIComponent(location.pathname.split("/").at(-1));

function field({ name, number, category }) {
  const label = document.createElement("label");
  label.append(name);
  const input = document.createElement(number ? "input" : "select");
  input.name = name;
  if (number) {
    const [low, high] = number;
    Object.assign(input, { type: "number", min: low, max: high, step: "any", required: true });
    input.value = Math.round((low + high) / 2);
  } else {
    category.forEach((each, place) => input.append(new Option(String(each), place)));
  }
  label.append(input);
  return label;
}

async function begin() {
  // The page's own limit is what the bandit says at first; it is kept from then on.
  const first = await (await fetch(`/v1/bandits/${encodeURIComponent(bandit)}/policy`)).json();
  if (!first.features?.columns) throw new Error("this bandit is not one for devices with a context");
  const { epsilon, contributions } = first;
  const device = new Device(location.origin, bandit, { epsilon, contributions, total: 10 * epsilon });
  await device.policy();
  const { sent: before } = await device.kept();
  show(
    "promise",
    `Of everything that this browser will ever send about “${bandit}”, whoever sees all of it learns at most ` +
      `epsilon = ${epsilon}: no report is more than ${Math.exp(epsilon).toFixed(1)} times as likely for you as for ` +
      `anybody else. It sends ${contributions} report${contributions > 1 ? "s" : ""} in all` +
      `${before ? `, and has sent ${before}` : ""}. Not hidden: that a report was sent, when, and from which address.`
  );
  const { columns } = first.features;
  const form = find("context");
  const button = Object.assign(document.createElement("button"), { textContent: "Choose for me, here" });
  form.append(...columns.map(field), button);
  show("know");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const context = {};
    for (const { name, number, category } of columns) {
      const { value } = form.elements[name];
      context[name] = number ? Number(value) : category[value];
    }
    choose(device, context, first, before).catch(trouble);
  });
}

async function choose(device, context, policy, before) {
  const decision = await device.decide(context);
  const chance = Math.round(100 * decision.probability);
  show("chosen", `“${decision.action}”, which it picks for somebody like you in ${chance} of 100 cases. Nothing was sent.`);
  show("choice");
  const [low, high] = policy.outcome_range;
  for (const [id, reward] of [["yes", high], ["no", low]])
    find(id).onclick = () => {
      find("yes").disabled = find("no").disabled = true;
      report(device, context, decision, reward, policy, before).catch(trouble);
    };
}

async function report(device, context, decision, reward, policy) {
  const status = await device.report(decision, reward);
  const last = sent.findLast(({ method }) => method === "POST");
  const knew = `${JSON.stringify(context)}, “${decision.action}”, and your answer ${reward}`;
  const nothing = {
    spent: "it has sent all the reports that it promised, and never sends more.",
    closed: "this bandit learns no more.",
  };
  if (!last) {
    show("drew", `It knew ${knew}. It drew nothing: ${nothing[status]}`);
  } else {
    const body = JSON.parse(last.body);
    const { kind } = policy.questions.find(({ name }) => name === body.question);
    show(
      "drew",
      `It knew ${knew}. A coin that has nothing to do with you picked one of ${policy.questions.length} questions: ` +
        `${QUESTIONS[kind]}. Your true answer was a point; what it sends is drawn at random, a little more often ` +
        `on your side than on the other.`
    );
    const times = Math.exp(policy.epsilon / policy.contributions).toFixed(1);
    show("odds", `Had you entered anything else, the same bytes would have been at most ${times} times as likely, or as unlikely.`);
  }
  find("sent").replaceChildren(
    ...sent.map(({ method, url, body }) => {
      const item = document.createElement("li");
      const code = document.createElement("code");
      code.textContent = `${method} ${new URL(url, location).pathname}${body ? `\n${body}` : ""}`;
      item.append(code);
      return item;
    })
  );
  const became = {
    counted: "The server has counted it.",
    duplicate: "The server had it already: it counts once.",
    closed: last ? "It came after its window had closed: left out, and not sent again." : "Nothing is sent.",
    refused: "The server will never take it: it was dropped, and is not sent again.",
    waiting: "The server could not be reached: the same bytes will be sent again, never others.",
    spent: "Nothing more is sent.",
  };
  show("became", became[status] ?? `The server said: ${status}.`);
  show("result");
}

function trouble(error) {
  show("trouble", error.message);
}

begin().catch(trouble);
