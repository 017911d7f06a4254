-- Shows Tabane's cells in Wireshark and tshark. The format is specified in wire.md, beside this file.
--
--   wireshark -X lua_script:docs/tabane.lua
--   tshark -X lua_script:docs/tabane.lua -d udp.port==7421,tabane -r FILE     (-d: the port of a second worker)
--
-- Cells in Ethernet frames are found by their EtherType.
--
-- A capture on an end point shows a train of cells as one long datagram, because the kernel segments it into cells later
-- (UDP_SEGMENT) or has coalesced them already (UDP_GRO). `cell_length` finds where cells begin.
-- A frame goes on to the dissector of Ethernet when it lies whole in its cell; longer ones are not put together.

local PORT = 7420
local ETHER_TYPE, HEAD = 0x88b5, 4
local VERSION, LINKS, LANES, GAPS_MAX, NAME_MAX = 1, 16, 16, 64, 32
local HEADER, TAG, NO_RECORD, KERNEL_END = 16, 16, 0xffff, 24
local PREFIX, VNET, ETHERNET, FRAME_MAX = 4, 10, 14, 65553
local PADDING, FRAME = 0, 1

local KINDS = { [0] = "data", "hello", "heartbeat", "repair", "handshake" }
local STEPS = { "initiation", "response", "cookie" }
local RECORDS = { [PADDING] = "padding", [FRAME] = "frame" }
local GSO = { [0] = "none", [1] = "TCP over IPv4", [3] = "UDP fragments", [4] = "TCP over IPv6", [5] = "UDP segments" }

local tabane = Proto("tabane", "Tabane")
local malformed = ProtoExpert.new("tabane.malformed", "Not what a sender of this version writes",
  expert.group.MALFORMED, expert.severity.ERROR)
tabane.experts = { malformed }

local ether = Proto("tabane_ether", "Tabane in Ethernet frames")
ether.fields.port = ProtoField.uint16("tabane_ether.port", "Port")
ether.fields.length = ProtoField.uint16("tabane_ether.length", "Length of the cell")

-- Name, title, type, and what else the type takes. In `f` a field goes by its name.
local FIELDS = {
  { "version", "Version", "uint8", base.DEC, nil, 0xf0 },
  { "kind", "Kind", "uint8", base.DEC, KINDS, 0x0f },
  { "epoch", "Epoch", "uint8" },
  { "link", "Link", "uint8" },
  { "lane", "Lane", "uint8" },
  { "link_seq", "Link sequence number", "uint32" },
  { "lane_seq", "Lane sequence number", "uint32" },
  { "block_offset", "Block offset", "uint16" },
  { "session", "Session", "uint16", base.HEX },
  { "sealed", "Sealed payload", "bytes" },
  { "tag", "Tag", "bytes" },

  { "hello.node", "Node: MAC address", "ether" },
  { "hello.port", "Node: UDP port", "uint16" },
  { "hello.incarnation", "Incarnation", "uint64", base.HEX },
  { "hello.group", "Group", "uint64", base.HEX },
  { "hello.session", "Session for cells to the speaker", "uint16", base.HEX },
  { "hello.your_session", "Session for cells to the addressee", "uint16", base.HEX },
  { "hello.cell_max", "Largest cell", "uint16" },
  { "hello.link", "Link", "uint8" },
  { "hello.workers", "Workers", "uint8" },
  { "hello.takes_uso", "Takes UDP superframes", "bool", 8, nil, 0x01 },
  { "hello.leaves", "Takes this link out", "bool", 8, nil, 0x02 },
  { "hello.seals", "Cells are sealed", "bool", 8, nil, 0x04 },
  { "hello.asks", "Asks for a hello", "bool", 8, nil, 0x08 },
  { "hello.pauses", "Makes way for its successor", "bool", 8, nil, 0x10 },
  { "hello.ends", "Ends", "bool", 8, nil, 0x20 },
  { "hello.drains", "Drains this link", "bool", 8, nil, 0x40 },
  { "hello.states", "States what it wants to receive", "bool", 8, nil, 0x80 },
  { "hello.name_length", "Length of the name", "uint8" },
  { "hello.name", "Name", "string" },
  { "hello.receives", "Wants to receive at most (kbit/s)", "uint32" },
  { "hello.further", "Further capabilities", "uint8", base.HEX },
  { "hello.kernel_mac", "Receives frames of the kernel path: MAC address", "ether" },
  { "hello.kernel_port", "Receives frames of the kernel path: UDP port", "uint16" },
  { "hello.kernel_address", "Receives frames of the kernel path: IPv6 address", "ipv6" },

  { "group_tag", "Group tag", "bytes" },

  { "handshake.step", "Step", "uint8", base.DEC, STEPS },
  { "handshake.epoch", "Epoch of the keys", "uint8" },
  { "handshake.serial", "Serial number", "uint32" },
  { "handshake.node", "Node: MAC address", "ether" },
  { "handshake.port", "Node: UDP port", "uint16" },
  { "handshake.incarnation", "Incarnation", "uint64", base.HEX },
  { "handshake.addressee", "Addressee: MAC address", "ether" },
  { "handshake.addressee_port", "Addressee: UDP port", "uint16" },
  { "handshake.body", "Body", "bytes" },
  { "handshake.stamp", "Stamp", "bytes" },

  { "heartbeat.sent_at", "Sent at (us)", "uint32" },
  { "heartbeat.echo", "Echo (us)", "uint32" },
  { "heartbeat.echo_age", "Age of the echo (us)", "uint32" },
  { "heartbeat.sent_links", "Links of the speaker", "uint8" },
  { "heartbeat.reported_links", "Links of the addressee", "uint8" },
  { "heartbeat.serial", "Serial number", "uint16" },
  { "heartbeat.departed", "Departed", "uint32" },
  { "heartbeat.queued", "Queued bytes", "uint32" },
  { "heartbeat.next", "Next", "uint32" },
  { "heartbeat.count", "Count", "uint32" },
  { "heartbeat.skew", "Skew (us)", "uint32" },
  { "heartbeat.up", "Up", "bool", 8, nil, 0x01 },
  { "heartbeat.behind", "Behind", "bool", 8, nil, 0x02 },
  { "heartbeat.heartbeats", "Heartbeats (modulo 64)", "uint8", base.DEC, nil, 0xfc },
  { "heartbeat.delay", "Delay (us, modulo 2^24)", "uint24" },
  { "heartbeat.probes", "Links with probes", "uint8" },
  { "heartbeat.probed_link", "Link", "uint8" },
  { "heartbeat.probed", "Latest probe", "uint32" },
  { "heartbeat.carried_links", "Links on which programs sent", "uint8" },
  { "heartbeat.carried", "Sent by programs (frames and KiB, modulo 2^32)", "uint32" },
  { "heartbeat.padding", "Padding of a probe", "bytes" },

  { "repair.gaps", "Gaps", "uint8" },
  { "repair.link", "Link", "uint8" },
  { "repair.count", "Missing cells", "uint16" },
  { "repair.first", "First", "uint32" },

  { "continued", "End or middle of a record", "bytes" },
  { "record.kind", "Kind", "uint8", base.DEC, RECORDS },
  { "record.length", "Length", "uint24" },
  { "vnet.flags", "Flags", "uint8", base.HEX },
  { "vnet.gso_type", "GSO type", "uint8", base.DEC, GSO, 0x7f },
  { "vnet.ecn", "ECN", "bool", 8, nil, 0x80 },
  { "vnet.hdr_len", "Length of headers", "uint16" },
  { "vnet.gso_size", "GSO size", "uint16" },
  { "vnet.csum_start", "Checksum start", "uint16" },
  { "vnet.csum_offset", "Checksum offset", "uint16" },
}
local f, all = {}, {}
for index, field in ipairs(FIELDS) do
  local name, title, format, display, values, mask = table.unpack(field, 1, 6)
  f[name] = ProtoField[format]("tabane." .. name, title, display, values, mask)
  all[index] = f[name]
end
tabane.fields = all

-- Adds fields one behind the other, from `at` on: each call names a field and its length, and returns its bytes.
-- `stay`: the next field lies in the same bytes.
local function fields_from(tree, cell, at)
  return function(name, length, little_endian, stay)
    local range = cell(at, length)
    if little_endian then tree:add_le(f[name], range) else tree:add(f[name], range) end
    if not stay then at = at + length end
    return range
  end
end

local function complain(tree, sentence)
  tree:add_proto_expert_info(malformed, sentence)
  return "malformed: " .. sentence
end

-- The complaint about a cell that is shorter than `bytes`.
local function too_short(tree, cell, bytes)
  if cell:len() >= bytes then return nil end
  return complain(tree, cell:len() .. " bytes where " .. bytes .. " are needed")
end

local function hello(tree, cell)
  local fixed = HEADER + 34
  local complaint = too_short(tree, cell, fixed)
  if complaint then return complaint end
  local capabilities = cell(fixed - 2, 1):uint()
  local states, seals = capabilities >= 128, capabilities % 8 >= 4
  local ends = fixed + cell(fixed - 1, 1):uint() + (states and 4 or 0)
  complaint = too_short(tree, cell, ends)
  if complaint then return complaint end
  local goes_on = not seals and cell:len() > ends
  local in_kernel = goes_on and cell(ends, 1):uint() % 2 == 1
  complaint = in_kernel and too_short(tree, cell, ends + 1 + KERNEL_END)
  if complaint then return complaint end
  local add = fields_from(tree, cell, HEADER)
  local mac, port = add("hello.node", 6), add("hello.port", 2)
  add("hello.incarnation", 8)
  add("hello.group", 8)
  add("hello.session", 2)
  add("hello.your_session", 2)
  add("hello.cell_max", 2)
  local link, workers = add("hello.link", 1):uint(), add("hello.workers", 1):uint()
  add("hello.takes_uso", 1, false, true)
  add("hello.leaves", 1, false, true)
  add("hello.seals", 1, false, true)
  add("hello.asks", 1, false, true)
  add("hello.pauses", 1, false, true)
  add("hello.ends", 1, false, true)
  add("hello.drains", 1, false, true)
  add("hello.states", 1)
  local length = add("hello.name_length", 1):uint()
  local name = add("hello.name", length)
  local receives = states and add("hello.receives", 4):uint()
  if goes_on then add("hello.further", 1) end
  if in_kernel then
    add("hello.kernel_mac", 6)
    add("hello.kernel_port", 2)
    add("hello.kernel_address", 16)
  end
  if seals and cell:len() >= ends + TAG then tree:add(f["group_tag"], cell(cell:len() - TAG)) end
  if link >= LINKS then return complain(tree, "link " .. link .. " is out of range") end
  if workers == 0 then return complain(tree, "no workers") end
  if length > NAME_MAX then return complain(tree, "a name of " .. length .. " bytes") end
  if receives == 0 then return complain(tree, "it wants to receive nothing") end
  return "hello from " .. name:string() .. ", " .. tostring(mac:ether()) .. "/" .. port:uint()
end

-- What programs sent, and padding, from `at` on. Returns the length of the padding; what is wrong, if something is.
local function carried(tree, cell, at)
  local links = cell:len() > at and cell(at, 1):uint() or 0
  if links > LINKS then return 0, complain(tree, "more than " .. LINKS .. " links") end
  local padding = links == 0 and at or at + 1 + 4 * links
  local complaint = too_short(tree, cell, padding)
  if complaint then return 0, complaint end
  if links > 0 then
    local add = fields_from(tree, cell, at)
    add("heartbeat.carried_links", 1)
    for _ = 1, links do add("heartbeat.carried", 4) end
  end
  if cell:len() > padding then tree:add(f["heartbeat.padding"], cell(padding)) end
  return cell:len() - padding
end

-- The probes that a heartbeat names, and what follows them, from `at` on. Returns as `carried` does.
local function probed(tree, cell, at)
  if cell:len() == at then return 0 end
  local add = fields_from(tree, cell, at)
  local probes = add("heartbeat.probes", 1):uint()
  if probes > LINKS then return 0, complain(tree, "more than " .. LINKS .. " links") end
  local rest = at + 1 + 5 * probes
  local complaint = too_short(tree, cell, rest)
  if complaint then return 0, complaint end
  for probe = 0, probes - 1 do
    add = fields_from(tree:add(cell(at + 1 + 5 * probe, 5), "Probe " .. probe), cell, at + 1 + 5 * probe)
    local link = add("heartbeat.probed_link", 1):uint()
    if link >= LINKS then return 0, complain(tree, "link " .. link .. " is out of range") end
    add("heartbeat.probed", 4)
  end
  return carried(tree, cell, rest)
end

local function heartbeat(tree, cell)
  local fixed = HEADER + 16
  local complaint = too_short(tree, cell, fixed)
  if complaint then return complaint end
  local add = fields_from(tree, cell, HEADER)
  add("heartbeat.sent_at", 4)
  add("heartbeat.echo", 4)
  add("heartbeat.echo_age", 4)
  local sent, reported = add("heartbeat.sent_links", 1):uint(), add("heartbeat.reported_links", 1):uint()
  add("heartbeat.serial", 2)
  if sent > LINKS or reported > LINKS then return complain(tree, "more than " .. LINKS .. " links") end
  complaint = too_short(tree, cell, fixed + 8 * sent + 16 * reported)
  if complaint then return complaint end
  for link = 0, sent - 1 do
    local at = fixed + 8 * link
    add = fields_from(tree:add(cell(at, 8), "Sent on link " .. link), cell, at)
    add("heartbeat.departed", 4)
    add("heartbeat.queued", 4)
  end
  local up = {}
  for link = 0, reported - 1 do
    local at = fixed + 8 * sent + 16 * link
    add = fields_from(tree:add(cell(at, 16), "Received on link " .. link), cell, at)
    add("heartbeat.next", 4)
    add("heartbeat.count", 4)
    add("heartbeat.skew", 4)
    if add("heartbeat.up", 1, false, true):uint() % 2 == 1 then up[#up + 1] = link end
    add("heartbeat.behind", 1, false, true)
    add("heartbeat.heartbeats", 1)
    add("heartbeat.delay", 3)
  end
  local padding
  padding, complaint = probed(tree, cell, fixed + 8 * sent + 16 * reported)
  if complaint then return complaint end
  return (padding > 0 and "probe of " .. cell:len() .. " bytes" or "heartbeat")
    .. ", receives " .. (#up == 0 and "nothing" or "link " .. table.concat(up, ", "))
end

local function repair(tree, cell)
  local fixed = HEADER + 2
  local complaint = too_short(tree, cell, fixed)
  if complaint then return complaint end
  local gaps = fields_from(tree, cell, HEADER)("repair.gaps", 1):uint()
  if gaps > GAPS_MAX then return complain(tree, "more than " .. GAPS_MAX .. " gaps") end
  complaint = too_short(tree, cell, fixed + 8 * gaps)
  if complaint then return complaint end
  local missing = 0
  for at = fixed, fixed + 8 * (gaps - 1), 8 do
    local gap = tree:add(cell(at, 8), "Gap")
    local link = fields_from(gap, cell, at)("repair.link", 1):uint()
    local add = fields_from(gap, cell, at + 2)
    local count = add("repair.count", 2):uint()
    add("repair.first", 4)
    if link >= LINKS or count == 0 then return complain(gap, "no gap of " .. count .. " cells on link " .. link) end
    missing = missing + count
  end
  return "repair, " .. missing .. " cells are missing"
end

local function handshake(tree, cell)
  local fixed = HEADER + 30 + 2 * TAG
  local complaint = too_short(tree, cell, fixed)
  if complaint then return complaint end
  local add = fields_from(tree, cell, HEADER)
  local step = add("handshake.step", 1):uint()
  local epoch = add("handshake.epoch", 1):uint()
  local serial = add("handshake.serial", 4):uint()
  add("handshake.node", 6)
  add("handshake.port", 2)
  add("handshake.incarnation", 8)
  add("handshake.addressee", 6)
  add("handshake.addressee_port", 2)
  if cell:len() > fixed then add("handshake.body", cell:len() - fixed) end
  add("group_tag", TAG)
  add("handshake.stamp", TAG)
  if not STEPS[step] then return complain(tree, "step " .. step .. " is not known") end
  if epoch == 0 then return complain(tree, "no keys have epoch 0") end
  return "handshake #" .. serial .. ", " .. STEPS[step]
end

-- The record that begins at `at`. Returns where the next one begins; what is wrong, if something is.
local function record(tree, cell, at, frames)
  local rest = cell:len() - at
  if cell(at, 1):uint() == PADDING then
    tree:add(f["record.kind"], cell(at, 1)):append_text(", " .. rest .. " bytes")
    return cell:len()
  end
  local item = tree:add(cell(at), "Record")
  local complaint = too_short(item, cell, at + PREFIX + VNET + ETHERNET)
  if complaint then return cell:len(), complaint end
  local add = fields_from(item, cell, at)
  local kind, length = add("record.kind", 1):uint(), add("record.length", 3):uint()
  if kind ~= FRAME or length < VNET + ETHERNET or length > VNET + FRAME_MAX then
    return cell:len(), complain(item, "no record of kind " .. kind .. " has " .. length .. " bytes")
  end
  add("vnet.flags", 1)
  item:add(f["vnet.ecn"], cell(at + PREFIX + 1, 1))
  add("vnet.gso_type", 1)
  for _, name in ipairs({ "hdr_len", "gso_size", "csum_start", "csum_offset" }) do
    add("vnet." .. name, 2, true)
  end
  local here = math.min(length, rest - PREFIX)
  item:set_len(PREFIX + here)
  item:append_text(": a frame of " .. length - VNET .. " bytes")
  if here == length then
    frames[#frames + 1] = cell(at + PREFIX + VNET, length - VNET):tvb()
  else
    item:append_text(", " .. here - VNET .. " of them in this cell")
  end
  return at + PREFIX + here
end

local function data(tree, cell, frames)
  local lane, seq, offset = cell(3, 1):uint(), cell(8, 4):uint(), cell(12, 2):uint()
  local at = offset == NO_RECORD and cell:len() or math.min(HEADER + offset, cell:len())
  if at > HEADER then tree:add(f["continued"], cell(HEADER, at - HEADER)) end
  local records, complaint = 0, nil
  while at < cell:len() and not complaint do
    records = records + (cell(at, 1):uint() == PADDING and 0 or 1)
    at, complaint = record(tree, cell, at, frames)
  end
  return "data, lane " .. lane .. " #" .. seq .. ", " .. (complaint or "begins records: " .. records)
end

-- What a sealed cell shows to whoever has no key.
local function sealed(tree, cell, kind, epoch)
  local complaint = too_short(tree, cell, HEADER + TAG)
  if complaint then return complaint end
  local add = fields_from(tree, cell, HEADER)
  add("sealed", cell:len() - HEADER - TAG)
  add("tag", TAG)
  return "sealed " .. KINDS[kind] .. ", epoch " .. epoch
end

local MESSAGES = { hello, heartbeat, repair, handshake }

-- The header and what follows it. Returns what the cell is in a few words; so do the functions above.
local function contents(tree, cell, frames)
  local complaint = too_short(tree, cell, HEADER)
  if complaint then return complaint end
  tree:add(f["version"], cell(0, 1))
  local version, kind = math.floor(cell(0, 1):uint() / 16), cell(0, 1):uint() % 16
  if version ~= VERSION then return complain(tree, "version " .. version .. " is not known") end
  local add = fields_from(tree, cell, 0)
  add("kind", 1)
  local epoch, link, lane = add("epoch", 1):uint(), add("link", 1):uint(), add("lane", 1):uint()
  local link_seq = add("link_seq", 4):uint()
  add("lane_seq", 4)
  add("block_offset", 2)
  add("session", 2)
  if not KINDS[kind] then return complain(tree, "kind " .. kind .. " is not known") end
  local lanes = kind == 0 and LANES or 1
  if link >= LINKS or lane >= lanes then return complain(tree, "the link or the lane is out of range") end
  local place = "link " .. link .. " #" .. link_seq .. ": "
  if epoch ~= 0 then return place .. sealed(tree, cell, kind, epoch) end
  if kind == 0 then return place .. data(tree, cell, frames) end
  return place .. MESSAGES[kind](tree, cell)
end

-- Bytes of each cell but the last in a train: where a header stands that is like the first one, with the next number
-- of its link. A train whose second cell was lost is taken for one cell.
local function cell_length(tvb)
  local bytes = tvb:raw()
  local next_seq = Struct.pack(">I4", (tvb(4, 4):uint() + 1) % 2 ^ 32)
  local at = HEADER
  while true do
    local place = bytes:find(next_seq, at + 5, true) -- the first byte is number 1
    if not place then return #bytes end
    at = place - 5
    local same_version = math.floor(bytes:byte(at + 1) / 16) == VERSION
    local same_key_and_link = bytes:sub(at + 2, at + 3) == bytes:sub(2, 3)
    local same_session = bytes:sub(at + 15, at + 16) == bytes:sub(15, 16)
    if same_version and same_key_and_link and same_session then return at end
    at = at + 1
  end
end

function tabane.dissector(tvb, pinfo, root)
  if tvb:len() < HEADER then return 0 end
  local step, said, frames = cell_length(tvb), {}, {}
  for at = 0, tvb:len() - 1, step do
    local cell = tvb(at, math.min(step, tvb:len() - at)):tvb()
    local tree = root:add(tabane, cell())
    said[#said + 1] = contents(tree, cell, frames)
    tree:append_text(", " .. said[#said])
  end
  pinfo.cols.info:set(said[1] .. (#said > 1 and ", and " .. #said - 1 .. " more cells" or "") .. " ")
  pinfo.cols.info:fence()
  local ethernet = Dissector.get("eth_withoutfcs")
  for _, frame in ipairs(frames) do ethernet:call(frame, pinfo, root) end
  pinfo.cols.protocol:set("Tabane")
  return tvb:len()
end

-- A cell behind its port and its length; what is behind it is padding.
function ether.dissector(tvb, pinfo, root)
  if tvb:len() < HEAD then return 0 end
  local length = tvb(2, 2):uint()
  if length < HEADER or length > tvb:len() - HEAD then return 0 end
  local tree = root:add(ether, tvb(0, HEAD))
  tree:add(ether.fields.port, tvb(0, 2))
  tree:add(ether.fields.length, tvb(2, 2))
  tabane.dissector(tvb(HEAD, length):tvb(), pinfo, root)
  return tvb:len()
end

DissectorTable.get("udp.port"):add(PORT, tabane)
DissectorTable.get("ethertype"):add(ETHER_TYPE, ether)
