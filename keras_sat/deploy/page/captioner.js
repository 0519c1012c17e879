// A captioner in the browser: its model, run by LiteRT, and its words. Nothing of it knows the page.

// An error whose message is a sentence for the reader of the page.
export class Problem extends Error {}

// Return a sentence about any error.
export function sentenceOf(error) {
  if (error instanceof Problem) return error.message;
  const text = String(error?.message || error);
  if (/memory|allocation/i.test(text)) return "There is not enough memory for this in the browser. Close other pages and try again.";
  return `Something went wrong: ${text.replace(/\.$/, "")}. Load the page again; the browser's console may say more.`;
}

// Load LiteRT, once.
let runtime = null;
function loadRuntime() {
  runtime ??= (async () => {
    self.Module = { print: console.debug, printErr: console.debug }; // its messages are not for readers of the page
    const litert = await import("./runtime/index.js");
    await litert.loadLiteRt(new URL("runtime/", import.meta.url).href);
    return litert;
  })().catch((error) => {
    console.warn(error);
    runtime = null;
    throw new Problem(`LiteRT, which runs the network, is missing or cannot run in this browser: ${error?.message || error}. The folder runtime/ of this page must hold the files that runtime/README.txt names.`);
  });
  return runtime;
}

// Fetch a part of the page. A Problem names the part that is missing.
export async function fetchPart(address) {
  const name = address.pathname.slice(new URL(".", import.meta.url).pathname.length);
  const response = await fetch(address).catch((error) => { throw new Problem(`A part of this page, ${name}, cannot be had: ${error.message}.`); });
  if (!response.ok) throw new Problem(`A part of this page, ${name}, is missing: the server answers ${response.status}.`);
  return response;
}

// Return the content of a packed file, which some servers unpack on the way.
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

// Load the captioner in a folder of this page; `advance` is told the fraction that is loaded, or null where it is unknown.
export async function loadCaptioner(folder, advance) {
  const place = new URL(`${folder}/`, import.meta.url);
  const loading = loadRuntime();
  loading.catch(() => {}); // it is awaited below
  const settings = await (await fetchPart(new URL("model.json", place))).json();
  const tokens = (await (await fetchPart(new URL("vocabulary.txt", place))).text()).split("\n").slice(0, -1);
  const content = await fetchModel(new URL("model.tflite.gz", place), advance);
  advance?.(null);
  const litert = await loading;
  if (String.fromCharCode(...content.subarray(4, 8)) !== "TFL3") throw new Problem(`A part of this page, ${folder}/model.tflite.gz, is not a network: the file is damaged, or the server sends another one.`);
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

  // Return the result of given words, with the maps while it reads them. Unknown words are read as <unk>.
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
      if (!Number.isFinite(logProbs[i])) return; // there may be fewer captions than beams
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
