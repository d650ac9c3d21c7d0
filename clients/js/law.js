// The law of reports: the same bits as src/discreet/privacy/portable.py and local/questions.py.
// Only + - * / and the square root, in the order of the Python code; no Math.log, no Math.round.

export const COINS = 2 ** 52;
const CELLS = 2 ** 20;
const RESPONSE = CELLS + 1;
const LARGEST = 1e8;

/** Words of 52 random bits. */
export function words() {
  const pool = new Uint32Array(256);
  let at = pool.length;
  return () => {
    if (at === pool.length) {
      crypto.getRandomValues(pool);
      at = 0;
    }
    at += 2;
    return pool[at - 1] * 2 ** 20 + (pool[at - 2] >>> 12);
  };
}

export const unit = (word) => (word + 0.5) / COINS;

function dot(a, b) {
  let total = a[0] * b[0];
  for (let i = 1; i < a.length; i++) total += a[i] * b[i];
  return total;
}

const SERIES = [
  1.479819860511658591e-1, 1.531383769920937332e-1, 1.818357216161805012e-1, 2.222219843214978396e-1,
  2.857142874366239149e-1, 3.999999999940941908e-1, 6.666666666666735130e-1,
];
const view = new DataView(new ArrayBuffer(8));

/** The natural logarithm of a positive number. */
export function log(x) {
  let k = -1022;
  if (x < 2 ** -1022) {
    x *= 2 ** 54;
    k -= 54;
  }
  view.setFloat64(0, x);
  const top = view.getUint32(0);
  k += top >>> 20;
  view.setUint32(0, (top & 0xfffff) | 0x3fe00000);
  let f = view.getFloat64(0);
  if (f < Math.sqrt(0.5)) {
    f += f;
    k -= 1;
  }
  f -= 1;
  const s = f / (2 + f);
  const z = s * s;
  const series = SERIES.reduce((sum, term) => term + z * sum);
  const half = 0.5 * f * f;
  return (
    k * 6.9314718036912381649e-1 -
    (half - (s * (half + z * series) + k * 1.90821492927058770002e-10) - f)
  );
}

const POWERS = [
  4.13813679705723846039e-8, -1.6533902205465251539e-6, 6.61375632143793436117e-5,
  -2.77777777770155933842e-3, 1.66666666666666019037e-1,
];

/** The exponential of a number from -700 to 700. */
export function exp(x) {
  const k = Math.floor(x * 1.442695040888963387 + 0.5);
  const high = x - k * 6.9314718036912381649e-1;
  const low = k * 1.90821492927058770002e-10;
  const r = high - low;
  const t = r * r;
  const c = r - t * POWERS.reduce((sum, term) => term + t * sum);
  view.setFloat64(0, 0);
  view.setUint32(0, (1023 + k) << 20);
  return (1 - (low - (r * c) / (2 - c) - high)) * view.getFloat64(0);
}

/** Of a number that is not negative. */
function tanh(r) {
  const x = exp(-r);
  return ((1 - x) * (1 + x)) / (1 + x * x);
}

/** Of a number that is not negative. */
function sech(r) {
  const x = exp(-r);
  return (2 * x) / (1 + x * x);
}

/** To the nearest integer, halves to even; for sizes up to 2^52. */
const rint = (x) => (x < 0 ? x - COINS + COINS : x + COINS - COINS);
const clip = (x, low, high) => Math.min(Math.max(x, low), high);
const largestOf = (row) => row.reduce((most, x) => Math.max(most, Math.abs(x)), 0);

function normals(next, dim) {
  const made = new Array(2 * Math.ceil(dim / 2));
  let waiting = Array.from({ length: made.length / 2 }, (_, i) => i);
  while (waiting.length)
    waiting = waiting.filter((i) => {
      const x = 2 * unit(next()) - 1;
      const y = 2 * unit(next()) - 1;
      const square = x * x + y * y;
      if (!(square < 1 && square > 0)) return true;
      const size = Math.sqrt((-2 * log(square)) / square);
      made[2 * i] = x * size;
      made[2 * i + 1] = y * size;
      return false;
    });
  return made.slice(0, dim);
}

// -- a table of one coordinate t of a uniform direction, at nodes r = artanh t ----------------------

const NODES = 2 ** 11;
const DEPTH = 80;
const GAUSS = [[0.33998104358485626, 0.6521451548625461], [0.8611363115940526, 0.34785484513745385]];
const tables = new Map();

/** Of a dimension: nodes, their tails and densities, and the pieces between them; made once. */
function sphere(dim) {
  if (!tables.has(dim)) tables.set(dim, tableOf(dim));
  return tables.get(dim);
}

function tableOf(dim) {
  const n = dim - 1;
  const far = exp(DEPTH / n);
  const furthest = log(far + Math.sqrt((far - 1) * (far + 1)));
  const cell = furthest / NODES;
  const half = cell / 2;
  const power = (r) => exp(n * log(sech(r)));
  const r = Array.from({ length: NODES + 1 }, (_, i) => i * cell);
  const density = r.map(power);
  const tail = new Array(NODES + 1);
  tail[NODES] = density[NODES] / (n * tanh(r[NODES]));
  for (let i = NODES - 1; i >= 0; i--) {
    const middle = (i + 0.5) * cell;
    let sum = 0;
    for (const [place, weight] of GAUSS)
      sum += weight * (power(middle - half * place) + power(middle + half * place));
    tail[i] = tail[i + 1] + half * sum;
  }
  const whole = 2 * tail[0];
  for (let i = 0; i <= NODES; i++) {
    tail[i] /= whole;
    density[i] /= whole;
  }
  const where = tail.map((m) => log(m / (1 - m)));
  const slope = tail.map((m, i) => -((m * (1 - m)) / density[i]));
  const curvature = tail.map((m, i) => slope[i] * (n * tanh(r[i]) * slope[i] + (1 - 2 * m)));
  const pieces = where.slice(1).map((_, end) => {
    const start = end + 1; // r falls where the tail rises
    const width = where[end] - where[start];
    const [d0, d1] = [slope[start] * width, slope[end] * width];
    const [c0, c1] = [curvature[start] * width * width, curvature[end] * width * width];
    const step = r[end] - r[start];
    return [
      r[start],
      d0,
      0.5 * c0,
      10 * step - 6 * d0 - 4 * d1 - 1.5 * c0 + 0.5 * c1,
      -15 * step + 8 * d0 + 7 * d1 + 1.5 * c0 - c1,
      6 * step - 3 * d0 - 3 * d1 - 0.5 * c0 + 0.5 * c1,
    ];
  });
  return { r, tail, density, where: where.reverse(), pieces: pieces.reverse() };
}

/** r >= 0 with P(artanh t >= r) = tail, for tails up to 1/2: the same work for each. */
function quantile({ where, pieces }, tail) {
  const x = log(tail / (1 - tail));
  let piece = 0;
  for (let step = NODES / 2; step >= 1; step /= 2) piece += step * (x >= where[piece + step]);
  const s = clip((x - where[piece]) / (where[piece + 1] - where[piece]), 0, 1);
  const a = pieces[piece];
  return a[0] + s * (a[1] + s * (a[2] + s * (a[3] + s * (a[4] + s * a[5]))));
}

/** What a report of this epsilon is drawn by: the device's own, whatever a server states. */
export function thresholds(dim, epsilon) {
  const least = Math.min(epsilon, 25);
  const each = Math.max(least - 4e-15 * (1 + exp(least)), least / 2);
  let [node, cap, q] = [0, 0, 0.5];
  if (dim > 1) {
    const { r, tail, density } = sphere(dim);
    const other = exp(-each);
    node = best(density.map((f, i) => f / (tail[i] + (1 - tail[i]) * other)));
    cap = tanh(r[node]);
    q = tail[node];
  }
  const spent = each - Math.min(1e-9, each / 2);
  const likely = COINS - Math.ceil(COINS / (1 + exp(spent) * (q / (1 - q))));
  return { node, cap, likely };
}

/**
 * One coordinate t of a uniform direction, on the cap from a node on or on the rest, and
 * sqrt(1 - t^2). By inversion of one word: nothing is tried and refused, so time tells nothing.
 */
function cosine(next, dim, node, inside) {
  const table = sphere(dim);
  const q = table.tail[node];
  const tail = (inside ? q : 1 - q) * unit(next()); // above t, or below it
  const near = tail > 0.5;
  const drawn = quantile(table, near ? 1 - tail : tail);
  const r = Math.max(drawn, inside ? table.r[node] : 0);
  const along = tanh(r);
  return [inside || near ? along : -along, sech(r)];
}

/** BallChannel: a vector no longer than 1 becomes a point of a sphere, in steps of 2^-20. */
function ball(next, row, { node, likely }) {
  const [sign, coin] = [next(), next()];
  const largest = largestOf(row);
  let direction = row.map((x) => x / (largest || 1));
  const norm = Math.sqrt(dot(direction, direction));
  const size = (sign < (1 + largest * norm) * (COINS / 2) ? 1 : -1) / (largest ? norm : 1);
  direction = direction.map((x) => x * size);
  let units = normals(next, row.length);
  if (row.length === 1) {
    const end = largest ? (coin < likely ? 1 : -1) * direction[0] : units[0] < 0 ? -1 : 1;
    return [rint(end * CELLS)];
  }
  let [along, across] = cosine(next, row.length, node, coin < likely);
  if (!largest) [along, across] = [0, 1];
  for (let turn = 0; turn < 2; turn++) {
    const part = dot(units, direction);
    units = units.map((x, i) => x - part * direction[i]);
  }
  const scale = across / (Math.sqrt(dot(units, units)) || 1);
  return units.map((x, i) => rint((x * scale + along * direction[i]) * CELLS));
}

/** IntervalChannel on [0, 1]: a cell of the piecewise mechanism, or +-(2^20 + 1). */
function number(next, value, { likely, mixture, inside, plateau }) {
  const x = clip((value - 0.5) / 0.5, -1, 1);
  const bound = COINS / (2 * likely - COINS);
  const up = clip(rint((COINS / 2) * (1 + x / bound)), COINS - likely, likely);
  const respond = (coin) => (coin < up ? RESPONSE : -RESPONSE);
  if (!mixture) return [respond(next())];
  const [which, first, second, third] = [next(), next(), next(), next()];
  if (which >= mixture) return [respond(first)];
  const last = CELLS + 1 - plateau;
  const wanted = x * (CELLS - (plateau - 1) / 2) - (plateau - 1) / 2;
  const floor = clip(Math.floor(wanted), -CELLS, last);
  const start = Math.min(floor + (first < clip(wanted - floor, 0, 1) * COINS), last);
  const cell = (n) => {
    const high = Math.floor(third / 2 ** 26);
    return Math.floor((high * n + Math.floor(((third - high * 2 ** 26) * n) / 2 ** 26)) / 2 ** 26);
  };
  if (second < inside) return [start + cell(plateau)];
  const other = cell(2 * CELLS + 1 - plateau) - CELLS;
  return [other < start ? other : other + plateau];
}

/** A row in units of `bound`, shortened to 1; one that is not finite becomes 0. */
function scaled(row, bound) {
  const largest = largestOf(row);
  if (!(largest > 0 && largest < Infinity)) return row.map(() => 0);
  const units = row.map((x) => x / largest);
  const size = Math.min(largest / bound, 1 / Math.max(Math.sqrt(dot(units, units)), 1));
  return units.map((x) => x * size);
}

// A joint answer: what it tells of a record, and how much of its squared length each part has.
const PARTS = [["gram", 0.3], ["moment", 0.65], ["square", 0.05]];

const KINDS = ["gram", "moment", "square", "joint"];

/** Numbers of an answer in `d` columns. */
const entries = (kind, d) =>
  ({ gram: (d * (d + 1)) / 2, moment: d, square: 1, joint: (d * (d + 1)) / 2 + d + 1 })[kind];

/** The answer to a question before its channel: no longer than 1, whatever the record is. */
function answer(policy, { kind, clip: edge }, row, reward, scale = 1) {
  if (kind === "joint")
    return PARTS.flatMap(([part, weight]) =>
      answer(policy, { kind: part, clip: edge }, row, reward, Math.sqrt(weight))
    );
  const [low, high] = policy.outcome_range;
  const given = Number.isFinite(reward) ? reward : typeof reward === "boolean" ? +reward : NaN;
  const outcome = clip(given, low, high) / Math.max(Math.abs(low), Math.abs(high));
  const x = row.map((each) => clip(each, -1, 1));
  const residual = clip(outcome, -1, 1) - dot(x, policy.theta);
  if (kind === "square") return [scale * Math.min((residual / edge) * (residual / edge), 1)];
  const z = policy.whitening[0].map((_, j) => dot(x, policy.whitening.map((line) => line[j])));
  const largest = largestOf(z);
  let u = z.map((each) => each / (largest || 1));
  const norm = Math.sqrt(dot(u, u));
  u = u.map((each) => each / (norm || 1));
  const length = norm * largest;
  const ratio = residual / (edge * Math.max(length, 1));
  if (kind === "moment") return u.map((each) => scale * (each * clip(ratio, -1, 1)));
  const weight = Math.min(length, 1) / Math.max(Math.abs(ratio), 1);
  const entry = (i, j) => (scale * (u[i] * (u[j] * weight)) + scale * (u[j] * (u[i] * weight))) / 2;
  return u.flatMap((_, i) =>
    u.slice(i).map((_, k) => (k ? entry(i, i + k) * Math.sqrt(2) : entry(i, i)))
  );
}

/**
 * One private report: integers. Its first word picks the question. No word leaves the device: where
 * reports are shuffled, a question that others could foretell would leave the crowd that answers it.
 */
export function report(policy, row, reward, next) {
  const coin = unit(next());
  let end = 0;
  const place = policy.questions.findIndex(({ fraction }) => coin < (end += fraction));
  const question = policy.questions.at(place); // -1 is the last: fractions add up to nearly 1
  return { question: question.name, values: privatized(policy, question, row, reward, next) };
}

/** Characters of the longest report that a policy can lead to, whatever the record is. */
export function longest({ theta, questions }, tag) {
  return Math.max(...questions.map(({ name, kind }) => {
    const values = new Array(entries(kind, theta.length)).fill(-RESPONSE);
    return JSON.stringify({ id: "0".repeat(32), policy: tag, question: name, values }).length;
  }));
}

export function privatized(policy, question, row, reward, next) {
  let values = answer(policy, question, scaled(row, 1), reward);
  if (!values.every(Number.isFinite)) values = values.map(() => 0);
  return question.kind === "square"
    ? number(next, values[0], policy.channels.square)
    : ball(next, values, thresholds(values.length, policy.epsilon / policy.contributions));
}

// -- deciding --------------------------------------------------------------------------------------

export const best = (values) => values.indexOf(Math.max(...values));

/** Of anything that a context holds, also of what no number can be made of. */
function numeric(value) {
  try {
    return Number(value ?? NaN);
  } catch {
    return NaN; // a symbol, say: an error would tell of it
  }
}

/** Names and rows of what may be chosen: parts of an action times (1, columns of the context). */
export function offered(policy, context, wanted) {
  const { columns, actions } = policy.features;
  if (!columns) {
    if (!Array.isArray(context) || !context.every((row) => row?.length === policy.theta.length))
      throw new TypeError(`expected rows of ${policy.theta.length} features, one for each action`);
    return [context.map((_, i) => i), context.map((row) => scaled([...row].map(numeric), policy.norm_bound))];
  }
  const row = [1];
  for (const { name, number, category, other, missing } of columns) {
    const value = context?.[name];
    if (number) {
      const [low, high] = number;
      const given = numeric(value);
      const absent = Number.isNaN(given);
      const x = Math.min(Math.max(absent && typeof missing === "number" ? missing : given, low), high);
      row.push(Number.isNaN(x) ? 0 : 2 * ((x - low) / (high - low)) - 1); // no number: the middle
      if (missing === "indicator") row.push(+absent);
    } else {
      const place = category.indexOf(value);
      const absent = Boolean(missing) && (value ?? null) === null;
      row.push(...category.map((_, i) => +(i === place)));
      if (other) row.push(+(place < 0 && !absent));
      if (missing) row.push(+absent);
    }
  }
  const some = wanted ? wanted.map((name) => actions.find((each) => each.name === name)) : actions;
  if (!some.length || some.includes(undefined)) throw new TypeError("actions: some of the policy's");
  const rows = some.map(({ parts }) => parts.flatMap((part) => row.map((x) => part * x)));
  return [some.map(({ name }) => name), rows.map((each) => scaled(each, policy.norm_bound))];
}

/** The probability of each action under the public policy. */
export function chances({ window, policy, theta, root, draws, exploring }, rows) {
  const law = rows.map(() => (window === 0 ? 1 / rows.length : 0));
  const prefer = (values, weight) => (law[best(values)] += weight);
  const value = (row) => dot(row, theta);
  if (window === 0) return law;
  if (policy === "thompson") {
    for (const draw of draws) prefer(rows.map((row) => dot(row, draw)), 1 / draws.length);
    return law;
  }
  const hope = (row) => {
    const wide = root[0].map((_, j) => dot(row, root.map((line) => line[j])));
    return value(row) + 2.5 * Math.sqrt(dot(wide, wide));
  };
  prefer(rows.map(value), policy === "ucb" ? 1 - exploring : 1);
  if (policy === "ucb") prefer(rows.map(hope), exploring);
  return law;
}

// -- what a device checks before it sees a record ------------------------------------------------

const fail = (what) => {
  throw new RangeError(`this device refuses the policy: ${what}`);
};
const within = (x, low, high) => typeof x === "number" && x >= low && x <= high;
const integer = (x, low, high) => Number.isInteger(x) && x >= low && x <= high;
// Array.from: `every` passes over the holes of a sparse array.
const list = (x, n, test) => Array.isArray(x) && x.length === n && Array.from(x).every(test);
const named = (x) => typeof x === "string" && x.length > 0 && x.length <= 40;
const different = (names) => new Set(names).size === names.length;
const bounded = (x) => within(x, -LARGEST, LARGEST);
const size = (x) => within(x, -1e100, 1e100);

/** Whether a stated channel is the device's own, or costs no more than `most`. */
function sound(kind, dim, stated, most) {
  if (kind !== "square") {
    const own = thresholds(entries(kind, dim), most);
    return stated?.cap === own.cap && stated?.likely === own.likely;
  }
  const { likely, mixture, plateau, inside } = stated ?? {};
  if (!integer(likely, COINS / 2 + 1, COINS - 1) || !integer(mixture, 0, COINS)) return false;
  const odds = log(likely / (COINS - likely));
  if (!mixture) return odds <= most;
  if (!integer(plateau, 1, 2 * CELLS) || !integer(inside, 1, COINS - 1)) return false;
  const others = 2 * CELLS + 1 - plateau;
  const ratio = (a, n, b, m) => log(((a / b) * Math.ceil(COINS / n)) / Math.floor(COINS / m));
  const losses = [
    odds, ratio(inside, plateau, COINS - inside, others), ratio(COINS - inside, others, inside, plateau),
  ];
  return Math.max(...losses) <= most;
}

/** log n! */
function logFactorial(n) {
  if (n < 12) {
    let product = 1;
    for (let i = 2; i <= n; i++) product *= i;
    return log(product);
  }
  const square = n * n;
  return (n + 0.5) * log(n) - n + 0.5 * log(2 * Math.PI) + (1 - (1 - 2 / (7 * square)) / (30 * square)) / (12 * n);
}

const chance = (n, k, p) =>
  Math.exp(logFactorial(n) - logFactorial(k) - logFactorial(n - k) + k * log(p) + (n - k) * log(1 - p));

/**
 * The delta at `epsilon` of one report that costs `each` by itself, shuffled among n: as
 * src/discreet/privacy/shuffle.py proves it. What the sums leave out is below 1e-30.
 */
export function shuffledDelta(epsilon, each, n) {
  if (epsilon >= each) return 0;
  const [t, L] = [Math.exp(epsilon), Math.exp(each)];
  const [gain, loss, p] = [L - t, L * t - 1, 2 / (L + 1)];
  const mean = (n - 1) * p;
  const width = 12 * Math.sqrt(mean * (1 - p)) + 144;
  let sum = 0;
  for (let m = Math.max(0, Math.floor(mean - width)) + 1; m <= Math.min(n, mean + width + 1); m++) {
    let k = Math.floor((loss * m) / (gain + loss)) + 1;
    let inner = 0;
    let weight = k > m ? 0 : chance(m, k, 0.5);
    for (; k <= m && weight * gain * m > inner * 1e-17; k++) {
      inner += weight * (gain * k - loss * (m - k));
      weight *= (m - k) / (k + 1);
    }
    sum += (chance(n - 1, m - 1, p) * inner) / m;
  }
  return p * sum;
}

/**
 * The fractions of every batch that are counted on to be honest, and to arrive, as they were said; of
 * a policy that does not say them, those that are certain.
 */
export const crowdOf = ({ size: planned, minimum, honest, honest_fraction, minimum_fraction }) => [
  honest_fraction ?? (honest > 1 ? honest : 1e-9) / planned,
  minimum_fraction ?? minimum / planned,
];

/** The most that a report may cost by itself where it hides in a batch: computed, not believed. */
function hidden({ epsilon, batch }, { epsilon: most, contributions, delta, localEpsilon }) {
  const { size: planned, minimum, honest } = batch;
  if (!delta) fail("its reports need a crowd: state `relay` and `delta`");
  if (contributions !== 1) fail("reports are shuffled: this client sends one, so state contributions 1");
  if (!within(batch.epsilon, 1e-10, most) || !within(batch.delta, 1e-300, delta)) fail("it asks for more epsilon");
  if (!integer(planned, 1, 1e9) || !integer(minimum, 1, planned) || !integer(honest, 1, minimum)) fail("batch");
  const [counted, least] = crowdOf(batch);
  if (!within(least, 0, 1) || !(counted > 0 && counted <= least)) fail("batch");
  const slack = 1e-12 * planned;
  if (honest > Math.max(1, counted * planned + slack) || minimum < least * planned - slack) fail("batch");
  if (!within(epsilon, 1e-10, localEpsilon)) fail("its reports cost more by themselves");
  if (!(shuffledDelta(most, epsilon, honest) <= delta * (1 + 1e-6))) fail("its batch is too small to hide in");
  return localEpsilon;
}

/** Refuse, with a RangeError, a policy that asks for more than `promise`, or is none. */
export function check(policy, promise) {
  try {
    return checked(policy, promise);
  } catch (error) {
    if (error instanceof RangeError) throw error;
    return fail("it is damaged");
  }
}

function checked(policy, promise) {
  const { epsilon, contributions: k, theta, questions, outcome_range: range } = policy;
  const d = theta.length;
  if (policy.format !== 1) fail("expected format 1; update this client");
  if (!integer(d, 1, 512) || !list(theta, d, bounded)) fail("theta");
  if (!integer(k, 1, promise.contributions)) fail("it asks for more contributions");
  const most = policy.batch ? hidden(policy, promise) : promise.epsilon;
  if (!within(epsilon, 1e-10, most)) fail("it asks for more epsilon");
  if (epsilon / k > most / promise.contributions) fail("its reports cost more each");
  for (const name of ["whitening", "root"])
    if (!list(policy[name], d, (line) => list(line, d, bounded))) fail(name);
  if (!(largestOf(policy.whitening.flat()) >= 1 / LARGEST)) fail("whitening");
  const draws = policy.draws;
  if (!integer(draws.length, 1, 4096) || !list(draws, draws.length, (line) => list(line, d, bounded))) fail("draws");
  if (!within(policy.exploring, 0, 0.99) || !integer(policy.window, 0, 2 ** 31)) fail("exploring");
  if (!["thompson", "ucb", "greedy"].includes(policy.policy)) fail("another rule");
  if (!list(range, 2, size) || !(range[0] < range[1])) fail("range");
  if (!within(Math.max(-range[0], range[1]), 1e-100, 1e100)) fail("range");
  if (!within(policy.norm_bound, 1e-100, 1e100)) fail("norm_bound");
  if (!integer(questions.length, 1, 64) || !list(questions, questions.length, askable)) fail("questions");
  if (!different(questions.map(({ name }) => name))) fail("questions");
  for (const { kind } of questions)
    if (!sound(kind, d, policy.channels[kind], epsilon / k)) fail("a channel is not this device's");
  const sum = questions.reduce((total, { fraction }) => total + fraction, 0);
  if (!(Math.abs(sum - 1) <= 1e-6)) fail("questions");
  checkFeatures(policy.features, d);
  return policy;
}

const askable = ({ name, kind, clip: edge, fraction }) =>
  named(name) && KINDS.includes(kind) && within(edge, 1e-6, LARGEST) && within(fraction, 0, 1);

function checkFeatures({ columns, actions, dim }, d) {
  if (columns === undefined) {
    if (dim !== d) fail("features");
    return;
  }
  const declared = ({ name, number, category }) =>
    typeof name === "string" &&
    (number === undefined) !== (category === undefined) &&
    (number ? list(number, 2, size) && number[0] < number[1] : category.length > 0 && different(category));
  if (!list(columns, columns.length, declared)) fail("features");
  if (!different(columns.map(({ name }) => name))) fail("features");
  const wide = ({ category, other, missing }) =>
    category ? category.length + !!other + !!missing : 1 + (missing === "indicator");
  const width = columns.reduce((n, each) => n + wide(each), 1);
  const offers = ({ name, parts }) => typeof name === "string" && list(parts, d / width, bounded);
  if (!(actions.length > 0) || !list(actions, actions.length, offers)) fail("features");
  if (!different(actions.map(({ name }) => name))) fail("features");
}
