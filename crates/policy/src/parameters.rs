//! The parameters of policies: declared once, set by name, checked before a policy sees them.

/// One parameter of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// Its value where none is given, as a user would write it.
    pub default: &'static str,
}

/// What a parameter may be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number, both bounds included.
    Integer {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A number, both bounds included.
    Real {
        /// The least.
        least: f64,
        /// The most.
        most: f64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Integer(u64),
    Real(f64),
    Choice(&'static str),
}

/// The values of a policy's parameters, each within its bounds.
#[derive(Clone, Debug)]
pub struct Settings {
    parameters: &'static [Parameter],
    values: Vec<Value>,
}

impl Settings {
    /// Every parameter at its default.
    pub fn defaults(parameters: &'static [Parameter]) -> Self {
        Self::parse(parameters, []).expect("defaults are within their bounds")
    }

    /// Defaults, but for the parameters that are given as (name, value).
    ///
    /// # Errors
    /// A sentence that says which name or value is wrong and which are right.
    pub fn parse<'a>(
        parameters: &'static [Parameter],
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, String> {
        let mut values = Vec::with_capacity(parameters.len());
        for parameter in parameters {
            values.push(parameter.parse(parameter.default)?);
        }
        for (name, text) in given {
            let Some(index) = parameters.iter().position(|parameter| parameter.name == name) else {
                let known: Vec<String> = parameters.iter().map(Parameter::usage).collect();
                return Err(match known.is_empty() {
                    true => format!("there is no parameter `{name}`: this policy has none"),
                    false => format!("there is no parameter `{name}`; there are {}", known.join(", ")),
                });
            };
            values[index] = parameters[index].parse(text)?;
        }
        Ok(Self { parameters, values })
    }

    /// A whole number.
    pub fn integer(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Integer(value) => value,
            other => panic!("parameter `{name}` is no whole number but {other:?}"),
        }
    }

    /// A number.
    pub fn real(&self, name: &str) -> f64 {
        match self.value(name) {
            Value::Real(value) => value,
            other => panic!("parameter `{name}` is no real number but {other:?}"),
        }
    }

    /// One of several words.
    pub fn choice(&self, name: &str) -> &'static str {
        match self.value(name) {
            Value::Choice(value) => value,
            other => panic!("parameter `{name}` is no choice but {other:?}"),
        }
    }

    fn value(&self, name: &str) -> Value {
        let index = self.parameters.iter().position(|parameter| parameter.name == name);
        self.values[index.unwrap_or_else(|| panic!("parameter `{name}` is not declared"))]
    }
}

impl Parameter {
    /// Name, bounds and default: `max=1..255 (5)`.
    pub fn usage(&self) -> String {
        let values = match self.kind {
            Kind::Integer { least, most: u64::MAX } => format!("{least}.."),
            Kind::Integer { least, most } => format!("{least}..{most}"),
            Kind::Real { least, most } if most.is_infinite() => format!("{least}.."),
            Kind::Real { least, most } => format!("{least}..{most}"),
            Kind::Choice(words) => words.join("|"),
        };
        format!("{}={values} ({})", self.name, self.default)
    }

    fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match self.kind {
            Kind::Integer { least, most } => {
                text.parse().ok().filter(|value| (least..=most).contains(value)).map(Value::Integer)
            }
            Kind::Real { least, most } => {
                text.parse().ok().filter(|value| (least..=most).contains(value)).map(Value::Real)
            }
            Kind::Choice(words) => words.iter().find(|&&word| word == text).map(|word| Value::Choice(word)),
        };
        value.ok_or_else(|| format!("`{}={text}` is out of bounds: {}", self.name, self.usage()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static PARAMETERS: &[Parameter] = &[
        Parameter { name: "max", help: "", kind: Kind::Integer { least: 1, most: 255 }, default: "5" },
        Parameter { name: "share", help: "", kind: Kind::Real { least: 0.0, most: 1.0 }, default: "0.25" },
        Parameter { name: "ties", help: "", kind: Kind::Choice(&["lru", "fifo"]), default: "lru" },
    ];

    #[test]
    fn what_is_given_replaces_the_default_and_the_rest_keeps_it() {
        let settings = Settings::parse(PARAMETERS, [("max", "7"), ("ties", "fifo")]).unwrap();
        assert_eq!((settings.integer("max"), settings.real("share"), settings.choice("ties")), (7, 0.25, "fifo"));
    }

    #[test]
    fn a_wrong_name_or_value_is_refused_with_the_right_ones() {
        let wrong = |name, value| Settings::parse(PARAMETERS, [(name, value)]).unwrap_err();
        assert_eq!(
            wrong("maximum", "7"),
            "there is no parameter `maximum`; there are max=1..255 (5), share=0..1 (0.25), ties=lru|fifo (lru)"
        );
        assert_eq!(wrong("max", "0"), "`max=0` is out of bounds: max=1..255 (5)");
        assert_eq!(wrong("share", "NaN"), "`share=NaN` is out of bounds: share=0..1 (0.25)");
        assert_eq!(wrong("ties", "mru"), "`ties=mru` is out of bounds: ties=lru|fifo (lru)");
    }
}
