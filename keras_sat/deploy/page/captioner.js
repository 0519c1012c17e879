// A captioner in the browser: its model, run by LiteRT, and its words. Nothing of it knows the page.

// What went wrong, in a sentence for the reader of the page.
export class Problem extends Error {}

// Return a sentence about any error.
export function sentenceOf(error) {
  if (error instanceof Problem) return error.message;
  const text = String(error?.message || error);
  if (/memory|allocation/i.test(text)) return "There is not enough memory for this in the browser. Close other pages and try again.";
  return `Something went wrong that the page does not know: ${text.replace(/\.$/, "")}. Load it again; the browser's console may say more.`;
}

const PARTS = ["index.js", "wasm-utils.js", ...["litert_wasm_internal", "litert_wasm_compat_internal"].flatMap((name) => [`${name}.js`, `${name}.wasm`])];

// Load LiteRT, once. Where it is missing, the Problem says what belongs where.
let runtime = null;
function loadRuntime() {
  runtime ??= (async () => {
    try {
      const litert = await import("./runtime/index.js");
      self.Module = { print: console.debug, printErr: console.debug }; // what it tells is not for readers of a page
      await litert.loadLiteRt(new URL("runtime/", import.meta.url).href);
      return litert;
    } catch (error) {
      console.warn(error);
      runtime = null;
      const places = PARTS.map((name) => new URL(`runtime/${name}`, import.meta.url));
      const answers = await Promise.all(places.map((place) => fetch(place, { method: "HEAD" }).catch(() => null)));
      if (answers.includes(null)) throw new Problem("A part of this page cannot be had: is the network gone? Load the page again.");
      if (answers.every(({ ok }) => ok)) throw new Problem(`LiteRT, which runs the network, cannot run in this browser: ${error?.message || error}`);
      throw new Problem("LiteRT, which runs the network, is missing. The folder runtime/ beside this page must hold it: runtime/README.txt names the files.");
    }
  })();
  return runtime;
}

// Return the server's answer for a part of the page; where there is none, the Problem names the part.
export async function fetchPart(address) {
  const name = address.pathname.slice(new URL(".", import.meta.url).pathname.length);
  const response = await fetch(address).catch((error) => { throw new Problem(`A part of this page, ${name}, cannot be had: ${error.message}.`); });
  if (!response.ok) throw new Problem(`A part of this page, ${name}, is missing: the server answers ${response.status}.`);
  return response;
}

// Return what a file holds, unpacked where it is packed and the server has not unpacked it.
async function fetchModel(address, advance) {
  const response = await fetchPart(address);
  const total = Number(response.headers.get("content-length")), parts = [];
  let done = 0;
  for (const reader = response.body.getReader(); ;) {
    const { value, done: ended } = await reader.read();
    if (ended) break;
    parts.push(value);
    done += value.length;
    advance?.(total ? Math.min(done / total, 1) : null);
  }
  const packed = new Blob(parts);
  const start = new Uint8Array(await packed.slice(0, 2).arrayBuffer());
  if (start[0] !== 0x1f || start[1] !== 0x8b) return new Uint8Array(await packed.arrayBuffer());
  try {
    return new Uint8Array(await new Response(packed.stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
  } catch (error) {
    console.warn(error);
    throw new Problem(`A part of this page, ${address.pathname}, is damaged: it cannot be unpacked.`);
  }
}

// Load the captioner in a folder beside this page; `advance` is told which share of it has come.
export async function loadCaptioner(folder, advance) {
  const place = new URL(`${folder}/`, import.meta.url);
  const loading = loadRuntime();
  loading.catch(() => {}); // it is said below
  const settings = await (await fetchPart(new URL("model.json", place))).json();
  const tokens = (await (await fetchPart(new URL("vocabulary.txt", place))).text()).split("\n").slice(0, -1);
  const content = await fetchModel(new URL("model.tflite.gz", place), advance);
  advance?.(null); // how much of LiteRT has come, nobody says
  const litert = await loading;
  if (String.fromCharCode(...content.subarray(4, 8)) !== "TFL3") throw new Problem(`A part of this page, ${folder}/model.tflite.gz, is no network: the file is damaged, or the server sends another one.`);
  return new Captioner(litert, await litert.loadAndCompile(content, { accelerator: "wasm" }), settings, tokens);
}

class Captioner {
  constructor(litert, model, settings, tokens) {
    Object.assign(this, { litert, model, settings, tokens });
    this.ids = new Map(tokens.map((token, id) => [token, id]));
  }

  // Run a signature on { name: [array, shape] }; return { name: array }.
  async run(signature, inputs) {
    const tensors = Object.fromEntries(Object.entries(inputs).map(([name, [array, shape]]) => [name, new this.litert.Tensor(array, shape)]));
    try {
      const outputs = await this.model.run(signature, tensors);
      const arrays = {};
      for (const [name, tensor] of Object.entries(outputs)) {
        arrays[name] = (await tensor.data()).slice();
        tensor.delete();
      }
      return arrays;
    } finally {
      Object.values(tensors).forEach((tensor) => tensor.delete());
    }
  }

  // Return the features of a photo, RGB pixels (height * width * 3).
  async encode(pixels) {
    const [height, width] = this.settings.photo_size;
    return (await this.run("encode", { images: [pixels, [1, height, width, 3]] })).features;
  }

  // Return the best captions, the best first; see `resultsOf`.
  async captions(features) {
    return this.resultsOf(await this.run("beams", { features: [features, [1, ...this.settings.feature_shape]] }));
  }

  // Return the caption of greedy search straight from pixels.
  async caption(pixels) {
    const [height, width] = this.settings.photo_size;
    return this.resultsOf(await this.run("serving_default", { images: [pixels, [1, height, width, 3]] }))[0];
  }

  // Return where it looks while it reads these words; unknown ones are read as <unk>.
  async attend(features, words) {
    const { max_length: length, feature_shape: shape } = this.settings;
    const ids = new Int32Array(length);
    ids.set([...words.map((word) => this.ids.get(word) ?? this.ids.get("<unk>")), this.ids.get("<end>")]);
    const found = await this.run("attend", { features: [features, [1, ...shape]], token_ids: [ids, [1, length]] });
    return { ...this.resultsOf(found)[0], words };
  }

  // Return [{ words, logProb, maps, fromPhoto, confidence }]: maps is an array of arrays, rows * columns each.
  resultsOf({ token_ids: ids, num_words: counts, log_prob: logProbs, attention_weights: weights, from_photo: shares, confidence }) {
    const { max_length: length, grid: [rows, columns] } = this.settings, cells = rows * columns;
    const results = [];
    counts.forEach((count, i) => {
      if (!Number.isFinite(logProbs[i])) return; // fewer captions may be possible than were asked for
      const from = i * length;
      results.push({
        words: Array.from(ids.subarray(from, from + count), (id) => this.tokens[id]),
        logProb: logProbs[i],
        maps: Array.from({ length: count }, (_, t) => weights.subarray((from + t) * cells, (from + t + 1) * cells)),
        fromPhoto: shares ? Array.from(shares.subarray(from, from + count)) : null,
        confidence: confidence ? confidence[i] : null,
        rows, columns,
      });
    });
    return results;
  }
}
