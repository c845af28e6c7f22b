// A widget asks Python whether it is heard. anywidget gives a model two seconds to start; on a machine that is too busy
// for that, whatever Python sends is dropped for good, while what the page sends still arrives. Then the way in is
// opened again and Python sends everything anew.

const LOOK_MS = 500;
/** So many looks at a kernel that is free, without an answer, and the answer was dropped. */
const LOOKS = 4;

/** Make sure that Python's messages arrive. Returns what ends the attempt. @param {any} model the anywidget model */
export function greet(model) {
  const manager = model.widget_manager;
  const id = model.get("own_id");
  if (!manager?.kernel || !id) return () => {};
  const before = model.get("heard");
  let left = LOOKS;
  let timer = setTimeout(look, LOOK_MS);
  const stop = () => clearTimeout(timer);
  const send = (hello) => {
    try {
      model.send({ hello });
    } catch {
      stop(); // there is no kernel any more: others say so
    }
  };
  send("here");
  function look() {
    if (model.get("heard") !== before) return;
    if (manager.kernel?.status === "idle") left -= 1;
    if (left > 0) timer = setTimeout(look, LOOK_MS);
    else openAgain(manager, id).then(() => send("again"), console.error);
  }
  return stop;
}

/** Messages go to the model as of any widget, past anywidget's waiting for its start. */
async function openAgain(manager, id) {
  const model = await manager.get_model(id);
  let plain = null;
  for (let type = model; type; type = Object.getPrototypeOf(type))
    if (Object.hasOwn(type, "_handle_comm_msg")) plain = type._handle_comm_msg;
  model.comm.on_msg(plain.bind(model));
}
