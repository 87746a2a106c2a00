//! `every!()` reads the sources of the calling crate and lists each `#[repr(C)]` struct and union with the
//! offset and size of its fields, and each integer constant with its value. It reads the sources so that
//! no new type can be missed.

use std::{collections::HashMap, env, fs, path::Path};

use proc_macro::TokenStream;
use quote::{ToTokens, quote};
use syn::{Fields, GenericArgument, Item, PathArguments, Type, Visibility, parse_quote};

type Field = (syn::Ident, Type);

#[derive(Default)]
struct Declarations {
    structs: Vec<(syn::Ident, bool, Vec<Field>)>,
    generic: HashMap<String, Vec<Field>>,
    aliases: Vec<(syn::Ident, Type)>,
    constants: Vec<syn::Ident>,
}

#[proc_macro]
pub fn every(_: TokenStream) -> TokenStream {
    let crate_dir = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let mut found = Declarations::default();
    read_dir(&Path::new(&crate_dir).join("src"), &mut found);

    let mut types = Vec::new();
    for (name, union, fields) in &found.structs {
        types.push(entry(
            &name.to_string(),
            &parse_quote!(#name),
            *union,
            fields,
        ));
    }
    // `pub type ibv_alloc_pd = Cmd<ib_uverbs_alloc_pd>;` is a separate struct in C.
    for (name, ty) in &found.aliases {
        let Type::Path(path) = ty else { continue };
        let Some(last) = path.path.segments.last() else {
            continue;
        };
        let (Some(fields), PathArguments::AngleBracketed(arguments)) =
            (found.generic.get(&last.ident.to_string()), &last.arguments)
        else {
            continue;
        };
        let Some(GenericArgument::Type(argument)) = arguments.args.first() else {
            continue;
        };
        let fields: Vec<Field> = fields
            .iter()
            .map(|(name, ty)| {
                let is_parameter = ty.to_token_stream().to_string() == "T";
                (
                    name.clone(),
                    if is_parameter {
                        argument.clone()
                    } else {
                        ty.clone()
                    },
                )
            })
            .collect();
        types.push(entry(&name.to_string(), ty, false, &fields));
    }
    let constants = found.constants.iter().map(|name| {
        let text = name.to_string();
        quote!(Constant { name: #text, value: #name as i128, size: size_of_val(&#name) })
    });
    quote! {
        pub const TYPES: &[Struct] = &[#(#types),*];
        pub const CONSTANTS: &[Constant] = &[#(#constants),*];
    }
    .into()
}

fn read_dir(dir: &Path, found: &mut Declarations) {
    for entry in fs::read_dir(dir).expect("the sources can be listed") {
        let path = entry.expect("the sources can be listed").path();
        if path.is_dir() {
            read_dir(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).expect("the sources can be read");
            let file = syn::parse_file(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            file.items
                .into_iter()
                .for_each(|item| read_item(item, found));
        }
    }
}

fn read_item(item: Item, found: &mut Declarations) {
    match item {
        Item::Struct(item) if is_c(&item.attrs) => {
            let fields = named(&item.fields);
            if item.generics.params.is_empty() {
                found.structs.push((item.ident, false, fields));
            } else {
                found.generic.insert(item.ident.to_string(), fields);
            }
        }
        Item::Union(item) if is_c(&item.attrs) => {
            found
                .structs
                .push((item.ident, true, named(&Fields::Named(item.fields))));
        }
        Item::Type(item) => found.aliases.push((item.ident, *item.ty)),
        Item::Const(item)
            if matches!(item.vis, Visibility::Public(_)) && matches!(*item.ty, Type::Path(_)) =>
        {
            found.constants.push(item.ident);
        }
        _ => {}
    }
}

fn is_c(attributes: &[syn::Attribute]) -> bool {
    attributes
        .iter()
        .any(|a| a.path().is_ident("repr") && a.to_token_stream().to_string().contains('C'))
}

fn named(fields: &Fields) -> Vec<Field> {
    fields
        .iter()
        .map(|field| {
            (
                field
                    .ident
                    .clone()
                    .expect("a struct that C knows has names"),
                field.ty.clone(),
            )
        })
        .collect()
}

/// The description of a type. `ty` is its name in Rust, `name` in C.
fn entry(name: &str, ty: &Type, union: bool, fields: &[Field]) -> impl ToTokens + use<> {
    let fields = fields.iter().map(|(field, field_ty)| {
        let text = field.to_string();
        let type_name = match field_ty {
            Type::Path(path) => path
                .path
                .get_ident()
                .map(ToString::to_string)
                .unwrap_or_default(),
            _ => String::new(),
        };
        quote! {
            Field {
                name: #text,
                ty: #type_name,
                offset: offset_of!(#ty, #field),
                size: size_of::<#field_ty>(),
            }
        }
    });
    quote! {
        Struct { name: #name, union: #union, size: size_of::<#ty>(), fields: &[#(#fields),*] }
    }
}
