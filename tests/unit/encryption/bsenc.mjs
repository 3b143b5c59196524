// A second reader and writer of BSENC v1, made from the description of the format alone, in another language.
// node bsenc.mjs encrypt|decrypt FROM TO SALT ITERATIONS [NONCE]
// Takes every file of the folder FROM; the password is in the variable PASSWORD.
import { createCipheriv, createDecipheriv, pbkdf2Sync, randomBytes } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const MAGIC = Buffer.from("4253454e43000000", "hex");
const NONCE_AT = 9;
const TEXT_AT = 21;
const TAG = 16;

function encrypt(key, plain, nonce) {
  const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG });
  return Buffer.concat([MAGIC, Buffer.from([1]), nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function decrypt(key, envelope) {
  if (envelope.length < TEXT_AT + TAG) throw new Error("too short");
  if (!envelope.subarray(0, MAGIC.length).equals(MAGIC)) throw new Error("unknown magic");
  if (envelope[MAGIC.length] !== 1) throw new Error(`unsupported version ${envelope[MAGIC.length]}`);
  const end = envelope.length - TAG;
  const nonce = envelope.subarray(NONCE_AT, TEXT_AT);
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG });
  decipher.setAuthTag(envelope.subarray(end));
  return Buffer.concat([decipher.update(envelope.subarray(TEXT_AT, end)), decipher.final()]);
}

const [verb, from, to, salt, iterations, nonce] = process.argv.slice(2);
const password = Buffer.from(process.env.PASSWORD, "utf8");
const key = pbkdf2Sync(password, Buffer.from(salt, "base64"), Number(iterations), 32, "sha256");
for (const name of readdirSync(from)) {
  const content = readFileSync(join(from, name));
  const fresh = nonce ? Buffer.from(nonce, "hex") : randomBytes(12);
  writeFileSync(join(to, name), verb === "encrypt" ? encrypt(key, content, fresh) : decrypt(key, content));
}
