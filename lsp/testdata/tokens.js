// Prints the scope of each token of a file, as VS Code colours it: tokens.js GRAMMAR FILE.
const fs = require("fs");
const { createOnigScanner, createOnigString, loadWASM } = require("vscode-oniguruma");
const { INITIAL, Registry, parseRawGrammar } = require("vscode-textmate");

(async () => {
  await loadWASM(fs.readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm")).buffer);
  const [, , path, file] = process.argv;
  const registry = new Registry({
    onigLib: Promise.resolve({ createOnigScanner, createOnigString }),
    loadGrammar: async () => parseRawGrammar(fs.readFileSync(path, "utf8"), path),
  });
  const grammar = await registry.loadGrammar("source.fabricform");
  let state = INITIAL;
  for (const line of fs.readFileSync(file, "utf8").split("\n")) {
    const { tokens, ruleStack } = grammar.tokenizeLine(line, state);
    state = ruleStack;
    for (const t of tokens) {
      const text = line.slice(t.startIndex, t.endIndex).trim();
      if (text) console.log(text + " " + t.scopes.at(-1).replace(".fabricform", ""));
    }
  }
})();
