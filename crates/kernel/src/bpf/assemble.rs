//! An assembler of BPF: instructions, and labels for jumps.
//!
//! The encoding is that of the kernel's `Documentation/bpf/standardization/instruction-set.rst`.

use std::fmt;

/// A register. `R0` holds what a call returns, `R1` to `R5` its arguments, and calls leave `R6` to `R9` as they are.
/// `R10` is the frame pointer: the stack's 512 bytes lie below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R6,
    R7,
    R8,
    R9,
    R10,
}

impl Register {
    fn number(self) -> u8 {
        match self {
            Register::R0 => 0,
            Register::R1 => 1,
            Register::R2 => 2,
            Register::R3 => 3,
            Register::R4 => 4,
            Register::R6 => 6,
            Register::R7 => 7,
            Register::R8 => 8,
            Register::R9 => 9,
            Register::R10 => 10,
        }
    }
}

/// How many bytes a load or a store moves. Loads fill the rest of the register with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Size {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
    Long = 0x18,
}

impl Size {
    /// The size of so many bytes, if there is one.
    pub(crate) fn of(bytes: u32) -> Option<Size> {
        match bytes {
            1 => Some(Size::Byte),
            2 => Some(Size::Half),
            4 => Some(Size::Word),
            8 => Some(Size::Long),
            _ => None,
        }
    }
}

/// Arithmetic on 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Add = 0x00,
    Subtract = 0x10,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Xor = 0xa0,
    Move = 0xb0,
    ShiftRightSigned = 0xc0,
}

/// A comparison of 64 bits. Without `Signed`, of unsigned numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    Equal = 0x10,
    Above = 0x20,
    NotEqual = 0x50,
    AtLeastSigned = 0x70,
    AtMost = 0xb0,
}

/// The second operand of arithmetic or a comparison. A number is extended to 64 bits with its sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operand {
    Register(Register),
    Number(i32),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Operand {
        Operand::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Operand {
        Operand::Number(number)
    }
}

/// One instruction, as the kernel reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct Instruction {
    pub(crate) code: u8,
    pub(crate) registers: u8,
    pub(crate) offset: i16,
    pub(crate) number: i32,
}

/// A place to jump to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Label(usize);

/// A program that cannot be assembled: a mistake in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AssembleError {
    /// A jump to a label that was never placed. The jump is the instruction of this number.
    Unplaced(usize),
    /// A jump of more instructions than 16 bits hold. The jump is the instruction of this number.
    TooFar(usize),
}

impl fmt::Display for AssembleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AssembleError::Unplaced(at) => write!(f, "instruction {at} jumps to a label that has no place"),
            AssembleError::TooFar(at) => write!(f, "instruction {at} jumps more than 32,767 instructions"),
        }
    }
}

/// A program being written.
#[derive(Default)]
pub(crate) struct Assembler {
    code: Vec<Instruction>,
    /// The place of each label, once it has one.
    places: Vec<Option<usize>>,
    /// Jumps, each with its label.
    jumps: Vec<(usize, Label)>,
}

// Classes of instructions.
const LOAD_NUMBER: u8 = 0x18;
const LOAD: u8 = 0x61;
const STORE_NUMBER: u8 = 0x62;
const STORE: u8 = 0x63;
const ATOMIC_LONG: u8 = 0xdb;
const ARITHMETIC: u8 = 0x07;
const JUMP: u8 = 0x05;
const OF_REGISTER: u8 = 0x08;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// What the number of a wide load is: a map's descriptor; or it and an offset into the value of an array's only entry.
const MAP: u8 = 1;
const MAP_VALUE: u8 = 2;

/// What the number of a call is: the type of one of the kernel's own functions.
const KERNEL_FUNCTION: u8 = 2;

impl Assembler {
    fn push(&mut self, code: u8, to: u8, from: u8, offset: i16, number: i32) {
        let registers = if cfg!(target_endian = "little") { to | from << 4 } else { from | to << 4 };
        self.code.push(Instruction { code, registers, offset, number });
    }

    /// `to = *(from + offset)`
    pub(crate) fn load(&mut self, size: Size, to: Register, from: Register, offset: i16) {
        self.push(LOAD | size as u8, to.number(), from.number(), offset, 0);
    }

    /// `*(to + offset) = from`
    pub(crate) fn store(&mut self, size: Size, to: Register, offset: i16, from: Register) {
        self.push(STORE | size as u8, to.number(), from.number(), offset, 0);
    }

    /// `*(to + offset) = number`
    pub(crate) fn store_number(&mut self, size: Size, to: Register, offset: i16, number: i32) {
        self.push(STORE_NUMBER | size as u8, to.number(), 0, offset, number);
    }

    /// `*(u64 *)(to + offset) += from`, atomically.
    pub(crate) fn add_atomically(&mut self, to: Register, offset: i16, from: Register) {
        self.push(ATOMIC_LONG, to.number(), from.number(), offset, 0);
    }

    /// `to = to operation by`; for `Move`, `to = by`.
    pub(crate) fn calculate(&mut self, operation: Operation, to: Register, by: impl Into<Operand>) {
        self.with_operand(ARITHMETIC | operation as u8, to, by.into(), 0);
    }

    /// `to = by`
    pub(crate) fn set(&mut self, to: Register, by: impl Into<Operand>) {
        self.calculate(Operation::Move, to, by);
    }

    fn with_operand(&mut self, code: u8, to: Register, by: Operand, offset: i16) {
        match by {
            Operand::Register(from) => self.push(code | OF_REGISTER, to.number(), from.number(), offset, 0),
            Operand::Number(number) => self.push(code, to.number(), 0, offset, number),
        }
    }

    /// `to` = the map of this descriptor, as an argument of a call.
    pub(crate) fn load_map(&mut self, to: Register, map: i32) {
        self.push(LOAD_NUMBER, to.number(), MAP, 0, map);
        self.push(0, 0, 0, 0, 0);
    }

    /// `to` = the address of the only value of the array map of this descriptor.
    pub(crate) fn load_map_value(&mut self, to: Register, map: i32) {
        self.push(LOAD_NUMBER, to.number(), MAP_VALUE, 0, map);
        self.push(0, 0, 0, 0, 0);
    }

    /// `R0 = helper(R1, R2, …)`, by the helper's number in `enum bpf_func_id`.
    pub(crate) fn call(&mut self, helper: i32) {
        self.push(CALL, 0, 0, 0, helper);
    }

    /// `R0 = function(R1, R2, …)`, a function of the kernel's own by the number of its type.
    pub(crate) fn call_kernel(&mut self, function: u32) {
        self.push(CALL, 0, KERNEL_FUNCTION, 0, function.cast_signed());
    }

    /// Ends the program. `R0` is its result.
    pub(crate) fn exit(&mut self) {
        self.push(EXIT, 0, 0, 0, 0);
    }

    /// A new label, which is to be placed.
    pub(crate) fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// Places a label before the next instruction.
    pub(crate) fn place(&mut self, label: Label) {
        self.places[label.0] = Some(self.code.len());
    }

    /// `goto label`
    pub(crate) fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(JUMP, 0, 0, 0, 0);
    }

    /// `if (left condition right) goto label`
    pub(crate) fn jump_if(&mut self, left: Register, condition: Condition, right: impl Into<Operand>, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.with_operand(JUMP | condition as u8, left, right.into(), 0);
    }

    /// The program, with its jumps resolved.
    pub(crate) fn finish(mut self) -> Result<Vec<Instruction>, AssembleError> {
        for (at, label) in self.jumps {
            let place = self.places[label.0].ok_or(AssembleError::Unplaced(at))?;
            let distance = place as i64 - at as i64 - 1;
            self.code[at].offset = i16::try_from(distance).map_err(|_| AssembleError::TooFar(at))?;
        }
        Ok(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(code: u8, registers: u8, offset: i16, number: i32) -> Instruction {
        Instruction { code, registers, offset, number }
    }

    /// The expected encodings are those that `llvm-mc -triple bpf` gives.
    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_are_encoded_as_the_kernel_reads_them() {
        let mut asm = Assembler::default();
        asm.load(Size::Half, Register::R1, Register::R6, 36);
        asm.store(Size::Long, Register::R10, -16, Register::R1);
        asm.store_number(Size::Word, Register::R10, -4, 7);
        asm.calculate(Operation::And, Register::R1, 0xf000);
        asm.set(Register::R7, Register::R8);
        asm.calculate(Operation::ShiftRightSigned, Register::R4, 12);
        asm.add_atomically(Register::R1, 128, Register::R2);
        asm.load_map(Register::R1, 5);
        asm.load_map_value(Register::R2, 6);
        asm.call(131);
        asm.call_kernel(9);
        asm.exit();
        let expected = [
            instruction(0x69, 0x61, 36, 0),
            instruction(0x7b, 0x1a, -16, 0),
            instruction(0x62, 0x0a, -4, 7),
            instruction(0x57, 0x01, 0, 0xf000),
            instruction(0xbf, 0x87, 0, 0),
            instruction(0xc7, 0x04, 0, 12),
            instruction(0xdb, 0x21, 128, 0),
            instruction(0x18, 0x11, 0, 5),
            instruction(0, 0, 0, 0),
            instruction(0x18, 0x22, 0, 6),
            instruction(0, 0, 0, 0),
            instruction(0x85, 0, 0, 131),
            instruction(0x85, 0x20, 0, 9),
            instruction(0x95, 0, 0, 0),
        ];
        assert_eq!(asm.finish().unwrap(), expected);
    }

    #[test]
    fn jumps_go_forward_and_back_to_their_labels() {
        let mut asm = Assembler::default();
        let (start, end) = (asm.label(), asm.label());
        asm.place(start);
        asm.jump_if(Register::R1, Condition::Equal, 0, end);
        asm.jump_if(Register::R1, Condition::AtMost, Register::R2, start);
        asm.jump(end);
        asm.set(Register::R0, 1);
        asm.place(end);
        asm.exit();
        let code = asm.finish().unwrap();
        assert_eq!(code.iter().map(|i| i.code).collect::<Vec<_>>(), [0x15, 0xbd, 0x05, 0xb7, 0x95]);
        assert_eq!(code.iter().map(|i| i.offset).collect::<Vec<_>>(), [3, -2, 1, 0, 0]);
    }

    #[test]
    fn a_jump_without_a_place_is_an_error() {
        let mut asm = Assembler::default();
        let label = asm.label();
        asm.exit();
        asm.jump(label);
        assert_eq!(asm.finish(), Err(AssembleError::Unplaced(1)));
    }

    #[test]
    fn a_jump_too_far_is_an_error() {
        let long = |instructions: usize| {
            let mut asm = Assembler::default();
            let label = asm.label();
            asm.jump(label);
            (0..instructions).for_each(|_| asm.exit());
            asm.place(label);
            asm.finish()
        };
        assert_eq!(long(32_767).unwrap()[0].offset, 32_767);
        assert_eq!(long(32_768), Err(AssembleError::TooFar(0)));
    }
}
