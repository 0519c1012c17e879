// A captioner in the browser: its network, run by LiteRT, and its words.

import { doubt } from "./player.js";

// An error whose message is a sentence for the reader of the page.
export class Problem extends Error {}

// Return a sentence that describes any error.
export function sentenceOf(error) {
  if (error instanceof Problem) return error.message;
  const text = String(error?.message || error).replace(/\.$/, "");
  return `Something went wrong: ${text}. Load the page again; the browser's console may say more.`;
}

let runtime = null;
async function loadRuntime() {
  self.Module = { print: console.debug, printErr: console.debug }; // its messages are not for readers of the page
  try {
    const litert = await import("./runtime/index.js");
    await litert.loadLiteRt(new URL("runtime/", import.meta.url).href);
    return litert;
  } catch (error) {
    throw new Problem(`LiteRT, which runs the network, is missing or cannot run in this browser: ${error?.message || error}. \`keras-sat app FOLDER\` adds it to the folder of this page.`);
  }
}

// Fetch a file of the page.
export async function fetchPart(name) {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Problem(`A file of this page, ${name}, is missing: the server answered ${response.status}.`);
  return response;
}

// Return a network that is stored as gzip, which some servers decompress.
async function fetchNetwork(name) {
  const packed = await (await fetchPart(name)).blob();
  const isPacked = new Uint8Array(await packed.slice(0, 2).arrayBuffer()).join() === "31,139";
  const stream = isPacked ? packed.stream().pipeThrough(new DecompressionStream("gzip")) : packed.stream();
  const content = new Uint8Array(await new Response(stream).arrayBuffer().catch(() => []));
  if (String.fromCharCode(...content.subarray(4, 8)) === "TFL3") return content;
  throw new Problem(`A file of this page, ${name}, is not a network: it is damaged, or the server sent a different file.`);
}

// Do one thing after the other with the runtime: a network that is compiled while another runs can wait for ever.
let last = Promise.resolve();
function inTurn(action) {
  const result = last.then(action);
  last = result.catch(() => {});
  return result;
}

// Load the captioner in a folder of this page.
export async function loadCaptioner(folder) {
  const [litert, settings, tokens, network] = await Promise.all([
    runtime ??= loadRuntime(),
    fetchPart(`${folder}/model.json`).then((response) => response.json()),
    fetchPart(`${folder}/vocabulary.txt`).then((response) => response.text()),
    fetchNetwork(`${folder}/model.tflite.gz`),
  ]);
  const model = await inTurn(() => litert.loadAndCompile(network, { accelerator: "wasm" }));
  return new Captioner(litert, model, settings, tokens.split("\n").slice(0, -1));
}

class Captioner {
  constructor(litert, model, settings, tokens) {
    Object.assign(this, { litert, model, settings, tokens });
    this.ids = new Map(tokens.map((token, id) => [token, id]));
    this.photoShape = [1, ...settings.photo_size, 3];
    this.featureShape = [1, ...settings.feature_shape];
  }

  // Run a signature on { name: [array, shape] }; return { name: array }.
  async run(signature, inputs) {
    const tensors = {};
    for (const [name, [array, shape]] of Object.entries(inputs)) tensors[name] = new this.litert.Tensor(array, shape);
    try {
      const arrays = {};
      for (const [name, tensor] of Object.entries(await inTurn(() => this.model.run(signature, tensors)))) {
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
    return (await this.run("encode", { images: [pixels, this.photoShape] })).features;
  }

  // Return the captions of beam search, best first; see `resultsOf`.
  async captions(features) {
    return this.resultsOf(await this.run("beams", { features: [features, this.featureShape] }));
  }

  // Return the caption of greedy search, from pixels.
  async caption(pixels) {
    return this.resultsOf(await this.run("serving_default", { images: [pixels, this.photoShape] }))[0];
  }

  // Return the result for given words. Unknown words are read as <unk>.
  async attend(features, words) {
    const ids = new Int32Array(this.settings.max_length);
    ids.set([...words.map((word) => this.ids.get(word) ?? this.ids.get("<unk>")), this.ids.get("<end>")]);
    const inputs = { features: [features, this.featureShape], token_ids: [ids, [1, ids.length]] };
    return { ...this.resultsOf(await this.run("attend", inputs))[0], words };
  }

  // Return [{ words, logProb, maps, fromPhoto, confidence, doubtful }]: maps is an array of arrays, rows * columns each.
  resultsOf({ token_ids: ids, num_words: counts, log_prob: logProbs, attention_weights: weights, from_photo: shares, confidence,
    word_confidence: ofWords }) {
    const { max_length: length, grid: [rows, columns] } = this.settings, cells = rows * columns;
    return Array.from(counts, (count, i) => {
      const from = i * length;
      return {
        words: Array.from(ids.subarray(from, from + count), (id) => this.tokens[id]),
        logProb: logProbs[i],
        maps: Array.from({ length: count }, (_, t) => weights.subarray((from + t) * cells, (from + t + 1) * cells)),
        fromPhoto: shares ? Array.from(shares.subarray(from, from + count)) : null,
        confidence: confidence ? confidence[i] : null,
        doubtful: Array.from({ length: count }, (_, t) => ofWords?.[from + t] >= 0 && ofWords[from + t] < doubt),
        rows, columns,
      };
    }).filter(({ logProb }) => Number.isFinite(logProb)); // there may be fewer captions than beams
  }
}
