//! Enums of which users choose one by its name.

/// Choices of the user: each is an enum that knows all of its kind, and the name of each in files, flags and the status.
#[macro_export]
macro_rules! choices {
    ($($(#[$about:meta])+ $vis:vis $choice:ident { $($(#[$meta:meta])* $variant:ident = $name:literal,)+ })+) => {
        $($(#[$about])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis enum $choice {
            $($(#[$meta])* $variant,)+
        }

        impl $choice {
            /// All of them.
            $vis const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in files, flags and the status.
            $vis fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        })+
    };
}
